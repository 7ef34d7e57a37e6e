"""Accuracy on unseen networks: no leak, the same every time, and the shape of the report."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from regression.evaluation import Accuracy, evaluate, predict_left_out, run_variability_pct
from regression.intervals import ErrorKind
from regression.physical_model import PhysicalModel
from regression.tests.synthetic import make_networks, make_training_set

ROWS = make_training_set(make_networks(10), noise=0.03, runs=3)
EVALUATION = evaluate(ROWS)
REPORT = EVALUATION.report(machine="m", device="d", stack="s")


def test_the_report_has_exactly_these_keys() -> None:
    accuracy = {"mape", "median_ape", "p90_ape"}
    assert set(REPORT) == {
        "machine",
        "device",
        "stack",
        "cnns",
        "points",
        "run_variability_pct",
        "unseen_cnn",
        "unseen_family",
        "paper_method",
        "interval",
    }
    assert set(REPORT["unseen_cnn"]) == set(REPORT["unseen_family"]) == accuracy
    assert set(REPORT["paper_method"]) == {"unseen_cnn"}
    assert set(REPORT["paper_method"]["unseen_cnn"]) == accuracy
    assert {"nominal", "coverage"} <= set(REPORT["interval"])


def test_its_figures() -> None:
    assert (REPORT["cnns"], REPORT["points"]) == (10, 40)
    assert REPORT["interval"]["nominal"] == 0.8
    assert 0.6 < REPORT["interval"]["coverage"] <= 1
    assert REPORT["unseen_cnn"]["mape"] < 10
    assert REPORT["unseen_cnn"]["mape"] < REPORT["paper_method"]["unseen_cnn"]["mape"]
    assert REPORT["run_variability_pct"] == pytest.approx(3, abs=1)


def test_it_is_the_same_every_time() -> None:
    assert evaluate(ROWS).report(machine="m", device="d", stack="s") == REPORT


def test_a_networks_own_times_do_not_reach_its_forecast() -> None:
    own = ROWS.table.architectures == "net04"
    doubled = dataclasses.replace(
        ROWS, iteration_ms=np.where(own, 2 * ROWS.iteration_ms, ROWS.iteration_ms)
    )
    changed = predict_left_out(PhysicalModel, doubled, ROWS.table.architectures)
    before = predict_left_out(PhysicalModel, ROWS, ROWS.table.architectures)
    assert changed[own].tolist() == before[own].tolist()
    # There is something that could have leaked: the others do see it.
    assert np.abs(changed[~own] / before[~own] - 1).max() > 0.001


def test_nor_do_its_familys_where_the_family_is_left_out() -> None:
    family = ROWS.table.families == "family2"
    assert set(ROWS.table.architectures[family]) == {"net04", "net05"}
    doubled = dataclasses.replace(
        ROWS, iteration_ms=np.where(family, 2 * ROWS.iteration_ms, ROWS.iteration_ms)
    )
    changed = predict_left_out(PhysicalModel, doubled, ROWS.table.families)
    before = predict_left_out(PhysicalModel, ROWS, ROWS.table.families)
    assert changed[family].tolist() == before[family].tolist()


def test_the_errors_behind_the_intervals_are_those_of_unseen_networks() -> None:
    own = ROWS.table.architectures == "net04"
    errors = np.log(ROWS.iteration_ms[own] / EVALUATION.unseen_ms[own])
    assert EVALUATION.intervals.errors[ErrorKind.REGRESSED]["net04"] == pytest.approx(errors)


def test_one_network_alone_is_unseen_by_nobody() -> None:
    rows = make_training_set(make_networks(1))
    report = evaluate(rows).report(machine="m", device="d", stack="s")
    assert report["cnns"] == 1
    assert report["unseen_cnn"] is report["unseen_family"] is None
    assert report["paper_method"] == {"unseen_cnn": None}
    assert report["interval"]["coverage"] is None
    assert report["run_variability_pct"] is None


def test_the_worst_network_comes_first() -> None:
    by_network = EVALUATION.by_network()
    assert len(by_network) == 10
    assert list(by_network.values()) == sorted(by_network.values(), reverse=True)
    assert np.mean(list(by_network.values())) == pytest.approx(
        REPORT["unseen_cnn"]["mape"], abs=0.02
    )


def test_every_kind_of_interval_is_judged_by_other_networks() -> None:
    by_kind = EVALUATION.by_kind()
    # Too few layers for estimating others, and so for judging that.
    assert set(by_kind) == {kind.value for kind in ErrorKind} - {"layers"}
    for judged in by_kind.values():
        assert judged["cnns"] == 10
        assert judged["coverage_low"] < judged["coverage"] <= judged["coverage_high"]
        assert judged["mean_width_pct"] > 0
    regressed = by_kind["regressed"]
    assert regressed["coverage"] == REPORT["interval"]["coverage"]
    assert regressed["points"] == REPORT["points"]
    for name, figure in REPORT["unseen_cnn"].items():
        assert regressed[name] == pytest.approx(figure, abs=0.001)


def test_every_point_is_kept_beside_its_left_out_prediction() -> None:
    points = EVALUATION.points()
    assert len(points) == 40
    assert points[17] == {
        "architecture": "net04",
        "batch_size": int(ROWS.table.batch_sizes[17]),
        "measured_ms": pytest.approx(ROWS.iteration_ms[17], rel=1e-4),
        "predicted_ms": pytest.approx(EVALUATION.unseen_ms[17], rel=1e-4),
    }
    errors = [100 * abs(each["predicted_ms"] / each["measured_ms"] - 1) for each in points]
    assert np.mean(errors) == pytest.approx(REPORT["unseen_cnn"]["mape"], abs=0.01)
    assert evaluate(make_training_set(make_networks(1))).points() == []


def test_accuracy() -> None:
    measured = np.array([100.0, 100.0, 100.0, 100.0, 100.0])
    predicted = np.array([101.0, 98.0, 103.0, np.nan, 90.0])
    accuracy = Accuracy.of(measured, predicted)
    assert accuracy == Accuracy(mape=4.0, median_ape=2.5, p90_ape=7.9)
    assert Accuracy.of(measured, np.full(5, np.nan)) is None


def test_run_variability_is_the_median_over_points_with_several_runs() -> None:
    rows = dataclasses.replace(
        make_training_set(make_networks(1)),
        runs_ms=({"a": 99.0, "b": 101.0}, {"a": 5.0}, {"a": 90.0, "b": 110.0}, {"a": 10, "b": 10}),
    )
    assert run_variability_pct(rows) == pytest.approx(100 * np.sqrt(2) / 100, abs=0.001)


def test_the_version_follows_the_data() -> None:
    other = dataclasses.replace(ROWS, iteration_ms=ROWS.iteration_ms * 1.01)
    again = make_training_set(make_networks(10), noise=0.03, runs=3)
    assert again.version == ROWS.version
    assert other.version != ROWS.version
    assert len(ROWS.data_hash()) == 64
