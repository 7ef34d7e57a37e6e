"""Quantiles of other networks' errors, their floor, and the coverage they reach."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regression.intervals import (
    WIDTHS_WITH_FEW_NETWORKS,
    ErrorKind,
    IntervalModel,
    binomial_interval,
    error_quantile,
    measure_coverage,
)


def test_the_quantile_of_nine_networks_with_one_point_each() -> None:
    # Nine networks and one unseen of infinite error: 80 % is the eighth smallest.
    errors = {f"net{n}": [n / 100] for n in range(1, 10)}
    assert error_quantile(errors) == 0.08


def test_signs_do_not_matter() -> None:
    errors = {f"net{n}": [(-1) ** n * n / 100] for n in range(1, 10)}
    assert error_quantile(errors) == 0.08


def test_every_network_weighs_the_same() -> None:
    calm = {f"net{n}": [0.01] for n in range(9)}
    wild_points = {**calm, "wild": [0.5] * 1000}
    assert error_quantile(wild_points) == 0.01


def test_a_networks_own_errors_do_not_count() -> None:
    errors = {f"net{n}": [0.02, 0.03] for n in range(12)}
    before = error_quantile({**errors, "mine": [0.001]}, leave_out="mine")
    after = error_quantile({**errors, "mine": [9.0]}, leave_out="mine")
    assert before == after == 0.03
    others = [error_quantile({**errors, "mine": [e] * 50}, leave_out="net0") for e in (0.001, 9.0)]
    assert others[0] == 0.03  # for another network they do count ...
    errors_of_few = {f"net{n}": [0.02] for n in range(5)}
    assert error_quantile({**errors_of_few, "mine": [0.001]}, leave_out="net0") == 0.02
    assert math.isinf(error_quantile({"mine": [9.0]}, leave_out="mine"))


def test_too_few_networks_have_no_quantile() -> None:
    assert math.isinf(error_quantile({}))
    assert math.isinf(error_quantile({"a": [0.1], "b": [0.1], "c": [0.1]}))
    assert error_quantile({name: [0.1] for name in "abcd"}) == 0.1


def test_few_networks_get_a_wide_interval_and_not_less_than_they_erred() -> None:
    assert IntervalModel().half_width(ErrorKind.REGRESSED) == pytest.approx(math.log(1.5))
    erred = IntervalModel({ErrorKind.REGRESSED: {"a": [0.9], "b": [-0.1]}})
    assert erred.half_width(ErrorKind.REGRESSED) == 0.9
    assert erred.half_width(ErrorKind.REGRESSED, network="a") == pytest.approx(math.log(1.5))


def test_the_variability_of_runs_is_the_floor() -> None:
    model = IntervalModel(
        {
            ErrorKind.RUN: {f"net{n}": [0.04] for n in range(9)},
            ErrorKind.REGRESSED: {f"net{n}": [0.001] for n in range(9)},
        }
    )
    assert model.half_width(ErrorKind.RUN) == 0.04
    assert model.half_width(ErrorKind.REGRESSED) == 0.04


def test_an_extrapolation_widens_with_every_doubling() -> None:
    model = IntervalModel({ErrorKind.EXTRAPOLATED: {f"net{n}": [0.06] for n in range(9)}})
    widths = [model.half_width(ErrorKind.EXTRAPOLATED, doublings=d) for d in (1, 2, 6)]
    assert widths == pytest.approx([0.06, 0.12, 0.36])


def test_it_survives_as_json() -> None:
    model = IntervalModel({kind: {"a": [0.12346, -0.5], "b": []} for kind in ErrorKind})
    loaded = IntervalModel.from_json(model.to_json())
    assert loaded.errors[ErrorKind.ANCHORED] == {"a": [0.1235, -0.5], "b": []}
    for kind in ErrorKind:
        width = max(0.5, WIDTHS_WITH_FEW_NETWORKS[kind]) * (
            0.4 if kind is ErrorKind.EXTRAPOLATED else 1
        )
        assert loaded.half_width(kind) == pytest.approx(max(0.5, width))


def test_coverage_of_normal_errors_is_near_nominal() -> None:
    random = np.random.default_rng(3)
    errors = {f"net{n}": list(0.05 * random.standard_normal(6)) for n in range(200)}
    coverage = measure_coverage(IntervalModel({ErrorKind.REGRESSED: errors}))
    assert coverage is not None
    assert coverage.coverage == pytest.approx(0.8, abs=0.04)
    assert coverage.networks == 200
    assert coverage.low < coverage.coverage < coverage.high
    half_width = 1.2816 * 0.05
    assert coverage.mean_width_pct == pytest.approx(200 * math.sinh(half_width), rel=0.1)


def test_coverage_of_an_outlier_is_judged_by_the_others() -> None:
    errors = {f"net{n:02}": [0.02] * 6 for n in range(19)} | {"outlier": [0.9] * 6}
    coverage = measure_coverage(IntervalModel({ErrorKind.REGRESSED: errors}))
    assert coverage is not None
    # The measured variability is unknown, so that its default of 5 % is the floor.
    assert coverage.coverage == pytest.approx(19 / 20)


def test_one_network_has_no_coverage() -> None:
    assert measure_coverage(IntervalModel({ErrorKind.REGRESSED: {"a": [0.1]}})) is None
    assert measure_coverage(IntervalModel()) is None


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (8, 10, 0.4439, 0.9748),  # Clopper and Pearson's classical values
        (0, 10, 0.0, 0.3085),
        (10, 10, 0.6915, 1.0),
    ],
)
def test_binomial_interval(successes: int, trials: int, low: float, high: float) -> None:
    assert binomial_interval(successes, trials) == pytest.approx((low, high), abs=1e-4)
