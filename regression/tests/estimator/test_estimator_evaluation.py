from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest

from benchmarking.specs import ConvolutionUse
from regression.estimator_evaluation import (
    LeftOut,
    as_forecast,
    counts_for_intervals,
    format_table,
    interval_half_widths,
    leave_out,
    summarize,
)
from regression.layer_estimator import LayerEstimator
from regression.step_calibration import Collection
from regression.step_terms import network_terms
from regression.step_training import fit_steps
from regression.tests.estimator.specimens import (
    AMPERE,
    DEPTHWISE,
    DEVICES,
    TERMS_OF,
    VOLTA,
    example,
    roofline_timings,
    small_network,
)


def test_toys_and_tensorflows_depthwise_do_not_set_intervals() -> None:
    assert counts_for_intervals(example())
    assert not counts_for_intervals(example("lenet5", terms=TERMS_OF["net1"]))
    depthwise = network_terms(small_network(convolutions=(ConvolutionUse(DEPTHWISE, 1),)))
    by_pytorch = example(terms=depthwise)
    by_tensorflow = dataclasses.replace(
        by_pytorch,
        context=dataclasses.replace(by_pytorch.context, collection=Collection.PROFET),
    )
    assert counts_for_intervals(by_pytorch)
    assert not counts_for_intervals(by_tensorflow)


def test_a_forecast_knows_neither_host_nor_copy() -> None:
    asked = as_forecast(example())
    assert asked.context.host == "forecast 7.0/80"
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
