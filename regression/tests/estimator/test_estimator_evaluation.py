from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from benchmarking.specs import Optimizer, Precision
from regression.estimator_evaluation import (
    LeftOut,
    as_forecast,
    baseline_errors,
    counts_for_intervals,
    format_table,
    interval_half_widths,
    leave_out,
    summarize,
)
from regression.layer_estimator import LayerEstimator
from regression.step_calibration import Collection, StepContext, chip_of
from regression.step_rows import IterationWork
from regression.step_terms import NetworkTerms, network_terms
from regression.step_training import StepExample, fit_steps
from regression.tests.estimator.specimens import (
    AMPERE,
    DEVICES,
    VOLTA,
    roofline_timings,
    small_network,
)

TERMS_OF = {f"net{i}": network_terms(small_network(f"net{i}", blocks=4 + i)) for i in range(10)}


def example(
    network: str = "net1",
    device: object = VOLTA,
    batch: int = 16,
    milliseconds: float = 10.0,
    precision: Precision = Precision.FP32,
    terms: NetworkTerms | None = None,
) -> StepExample:
    spec = DEVICES[device.slug]  # type: ignore[attr-defined]
    return StepExample(
        network=network,
        family="small family",
        terms=terms or TERMS_OF[network],
        device=spec,
        context=StepContext(chip_of(spec), precision, Collection.TIMM, f"host {spec.slug}"),
        work=IterationWork.forecast(precision, Optimizer.SGD),
        batch_size=batch,
        milliseconds=milliseconds,
    )


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


def test_toys_and_tensorflows_depthwise_do_not_set_intervals() -> None:
    assert counts_for_intervals(example())
    assert not counts_for_intervals(example("lenet5", terms=TERMS_OF["net1"]))


def test_a_forecast_knows_neither_host_nor_copy() -> None:
    asked = as_forecast(example())
    assert asked.context.host == "forecast"
    assert not asked.work.has_copy


def _result(split: str, errors: list[float]) -> LeftOut:
    return LeftOut(split, np.array(errors), np.zeros(len(errors), dtype=bool))


def test_intervals_widen_with_errors_and_never_with_knowledge() -> None:
    rows = [example(f"net{i % 10}") for i in range(40)]
    steady, wild = [0.05] * 40, [0.5, -0.5] * 20
    widths = interval_half_widths(
        [_result("networks", steady), _result("iterations", [0.01] * 40), _result("devices", wild)],
        rows,
    )
    stack = 1.2816 * 0.12
    assert widths["iterations full dense"] == pytest.approx(np.hypot(0.05, stack))
    assert widths["layers full dense"] == widths["iterations full dense"]
    assert widths["specification full dense"] == pytest.approx(np.hypot(0.5, stack))


def test_own_errors_can_be_kept_out_of_an_interval() -> None:
    rows = [example("net1")] * 30 + [example("net2")] * 30
    results = [
        _result(split, [0.9] * 30 + [0.02] * 30) for split in ("networks", "iterations", "devices")
    ]
    widths = interval_half_widths(results, rows, lambda split, each: each.network == "net1")
    assert widths["iterations full dense"] == pytest.approx(np.hypot(0.02, 1.2816 * 0.12))


def test_leaving_out_predicts_every_iteration_from_the_others() -> None:
    layer_timings = [
        *roofline_timings(VOLTA, 2.0, count=120),
        *roofline_timings(AMPERE, 2.0, count=120),
    ]
    blank = [
        example(name, device, batch)
        for name in TERMS_OF
        for device in (VOLTA, AMPERE)
        for batch in (64, 256)
    ]
    fit = partial(fit_steps, rounds=1, make_layers=partial(LayerEstimator, trees=15))
    truth = fit(layer_timings, blank, DEVICES).predict(blank)
    rows = [
        example(each.network, each.device, each.batch_size, float(time))
        for each, time in zip(blank, truth, strict=True)
    ]
    results = leave_out(layer_timings, rows, DEVICES, seed=1, fit=fit)
    assert [result.split for result in results] == ["networks", "iterations", "devices"]
    assert np.median(np.abs(results[0].errors)) < 0.15
    assert all(np.isfinite(result.errors).all() for result in results)

    report = summarize(results, rows)
    everything = report["splits"][0]["rows"][0]
    assert (everything["name"], everything["cnns"], everything["points"]) == ("all", 10, 40)
    assert everything["median"] < 15
    assert 0.0 <= everything["coverage"] <= 1.0
    assert set(everything["baselines"]) == {"flops_over_peak", "device_ratio"}
    assert "Left out: networks" in format_table(report)
