from __future__ import annotations

import numpy as np
import pytest

from regression.estimator_baselines import baseline_errors
from regression.tests.estimator.specimens import AMPERE, VOLTA, example


def test_a_line_between_the_measured_ends() -> None:
    rows = [example(batch=b, milliseconds=t) for b, t in ((16, 10.0), (32, 18.0), (64, 34.0))]
    errors = baseline_errors(rows)["linear_in_batch"]
    assert np.isnan(errors[[0, 2]]).all()
    assert errors[1] == pytest.approx(0.0)


def test_the_ratio_of_two_devices_over_other_networks() -> None:
    rows = [
        example(f"net{i}", device, milliseconds=10.0 * (1 + i) * slower)
        for i in range(5)
        for device, slower in ((VOLTA, 3.0), (AMPERE, 1.0))
    ]
    rows[0] = example("net0", VOLTA, milliseconds=60.0)
    errors = baseline_errors(rows)["device_ratio"]
    assert errors[0] == pytest.approx(np.log(0.5))
    assert errors[2:] == pytest.approx(0.0)


def test_flops_over_peak_never_sees_its_own_network() -> None:
    rows = [example(f"net{i}", milliseconds=10.0) for i in range(4)]
    shifted = [*rows[:3], example("net3", milliseconds=1000.0)]
    before, after = (baseline_errors(each)["flops_over_peak"] for each in (rows, shifted))
    assert before[3] - after[3] == pytest.approx(np.log(100.0))
