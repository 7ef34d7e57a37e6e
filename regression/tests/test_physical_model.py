"""The physical model on devices whose true costs are known."""

from __future__ import annotations

import numpy as np
import pytest

from regression.physical_model import PhysicalModel
from regression.tests.synthetic import (
    MS_PER_MEGA_MULTIPLY_ADD,
    TRUE_COSTS,
    errors_pct,
    make_networks,
    make_table,
    true_device_ms,
)

TABLE = make_table(make_networks(24))
TRUE_MS = true_device_ms(TABLE)


def test_true_costs_are_recovered_where_priors_are_weak() -> None:
    model = PhysicalModel(noise=1e-4, robust_at=None, spread_scale=10).fit(TABLE, TRUE_MS)
    for column, cost in TRUE_COSTS.items():
        assert model.coefficients_[column] == pytest.approx(cost, rel=0.02), column
    assert model.convolution_scale_ == pytest.approx(1.0, abs=0.001)
    assert errors_pct(model.predict(TABLE), TRUE_MS).max() < 0.01


def test_a_quantity_that_no_network_has_keeps_its_prior() -> None:
    model = PhysicalModel().fit(TABLE, TRUE_MS, mega_multiply_add_ms=MS_PER_MEGA_MULTIPLY_ADD)
    assert TABLE.column("smooth_activation").max() == 0
    assert model.coefficients_["smooth_activation"] == pytest.approx(2 * model.streaming_ms_)
    assert model.coefficients_["matmul_mega_multiply_adds"] == pytest.approx(
        MS_PER_MEGA_MULTIPLY_ADD, rel=0.3
    )


def test_one_bad_timing_does_not_move_the_rest() -> None:
    spoilt = TRUE_MS.copy()
    spoilt[5] *= 3
    others = np.arange(len(TABLE)) != 5
    clean = PhysicalModel().fit(TABLE, TRUE_MS).predict(TABLE)[others]
    robust = PhysicalModel().fit(TABLE, spoilt).predict(TABLE)[others]
    plain = PhysicalModel(robust_at=None).fit(TABLE, spoilt).predict(TABLE)[others]
    assert np.abs(robust / clean - 1).mean() < 0.3 * np.abs(plain / clean - 1).mean()


def test_an_empty_table_is_refused() -> None:
    nothing = TABLE.rows(np.zeros(len(TABLE), dtype=bool))
    with pytest.raises(ValueError, match="no measured iterations"):
        PhysicalModel().fit(nothing, TRUE_MS[:0])
