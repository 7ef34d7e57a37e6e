"""Accuracy on networks that a model has not seen, beside the original's method.

Everything that depends on a network's own iterations is fitted without them: its whole slug, at
all image sizes, or its whole family. Its convolution timings are an input, and stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from regression.batch_curve import (
    anchoring_errors,
    extrapolation_errors,
    interpolation_errors,
    run_errors,
)
from regression.device_layers import left_out_errors
from regression.features import FeatureTable, FloatArray
from regression.intervals import NOMINAL, ErrorKind, IntervalModel, measure_coverage
from regression.paper_remainder import PaperRemainder
from regression.remainder import IterationModel
from regression.training_set import TrainingSet


class IterationEstimator(Protocol):
    """Anything that learns iteration times from features."""

    def fit(
        self,
        table: FeatureTable,
        iteration_ms: FloatArray,
        mega_multiply_add_ms: float | None = None,
    ) -> Self: ...

    def predict(self, table: FeatureTable) -> FloatArray: ...


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Absolute errors in percent of the measured time, over all points."""

    mape: float
    median_ape: float
    p90_ape: float

    @classmethod
    def of(cls, measured_ms: FloatArray, predicted_ms: FloatArray) -> Accuracy | None:
        """The accuracy over the rows that have a prediction; ``None`` without any."""
        known = np.isfinite(predicted_ms)
        if not known.any():
            return None
        errors = 100 * np.abs(predicted_ms[known] / measured_ms[known] - 1)
        return cls(
            round(float(errors.mean()), 3),
            round(float(np.median(errors)), 3),
            round(float(np.percentile(errors, 90)), 3),
        )


@dataclass(frozen=True)
class Evaluation:
    """What leaving networks out has shown.

    ``unseen_ms`` are iteration times of shape (rows,) from models without the row's network,
    NaN where there was no other network to learn from.
    """

    training_set: TrainingSet
    unseen_ms: FloatArray
    unseen_family_ms: FloatArray
    paper_ms: FloatArray
    intervals: IntervalModel

    def report(self, *, machine: str, device: str, stack: str) -> dict[str, Any]:
        """One entry of ``evaluate --format json``."""
        rows, measured_ms = self.training_set, self.training_set.iteration_ms
        coverage = measure_coverage(self.intervals)
        return {
            "machine": machine,
            "device": device,
            "stack": stack,
            "cnns": rows.networks,
            "points": len(rows.table),
            "run_variability_pct": run_variability_pct(rows),
            "unseen_cnn": _as_json(Accuracy.of(measured_ms, self.unseen_ms)),
            "unseen_family": _as_json(Accuracy.of(measured_ms, self.unseen_family_ms)),
            "paper_method": {"unseen_cnn": _as_json(Accuracy.of(measured_ms, self.paper_ms))},
            "interval": {
                "nominal": NOMINAL,
                "coverage": round(coverage.coverage, 4) if coverage else None,
                "coverage_low": round(coverage.low, 4) if coverage else None,
                "coverage_high": round(coverage.high, 4) if coverage else None,
                "mean_width_pct": round(coverage.mean_width_pct, 3) if coverage else None,
            },
        }

    def points(self) -> list[dict[str, Any]]:
        """Each iteration beside its prediction without the network, where there is one."""
        rows = self.training_set
        return [
            {
                "architecture": str(slug),
                "batch_size": int(batch_size),
                "measured_ms": _five_digits(measured_ms),
                "predicted_ms": _five_digits(predicted_ms),
            }
            for slug, batch_size, measured_ms, predicted_ms in zip(
                rows.table.architectures,
                rows.table.batch_sizes,
                rows.iteration_ms,
                self.unseen_ms,
                strict=True,
            )
            if np.isfinite(predicted_ms)
        ]

    def by_kind(self) -> dict[str, dict[str, float]]:
        """Errors in percent, coverage and width of the 80 % interval, by what was known."""
        found = {}
        for kind in ErrorKind:
            coverage = measure_coverage(self.intervals, kind)
            errors = np.concatenate([[], *self.intervals.errors.get(kind, {}).values()])
            accuracy = Accuracy.of(np.ones(len(errors)), np.exp(-errors))
            if coverage is not None and accuracy is not None:
                found[kind.value] = {
                    **asdict(accuracy),
                    "points": len(errors),
                    "coverage": round(coverage.coverage, 4),
                    "coverage_low": round(coverage.low, 4),
                    "coverage_high": round(coverage.high, 4),
                    "cnns": coverage.networks,
                    "mean_width_pct": round(coverage.mean_width_pct, 2),
                }
        return found

    def by_network(self) -> dict[str, float]:
        """Mean absolute error in percent of each unseen network, worst first."""
        errors = defaultdict(list)
        for slug, measured, predicted in zip(
            self.training_set.table.architectures,
            self.training_set.iteration_ms,
            self.unseen_ms,
            strict=True,
        ):
            if np.isfinite(predicted):
                errors[str(slug)].append(100 * abs(predicted / measured - 1))
        means = {slug: round(float(np.mean(values)), 2) for slug, values in errors.items()}
        return dict(sorted(means.items(), key=lambda item: -item[1]))


def evaluate(rows: TrainingSet) -> Evaluation:
    """Leave out every network, and every family, in turn; deterministic."""
    table = rows.table
    unseen_ms = predict_left_out(lambda: IterationModel(rows.kind), rows, table.architectures)
    return Evaluation(
        training_set=rows,
        unseen_ms=unseen_ms,
        unseen_family_ms=predict_left_out(lambda: IterationModel(rows.kind), rows, table.families),
        paper_ms=predict_left_out(PaperRemainder, rows, table.architectures),
        intervals=IntervalModel(
            {
                **_errors(rows, unseen_ms),
                ErrorKind.LAYERS: left_out_errors(rows.traced, rows.layer_times),
            }
        ),
    )


def predict_left_out(
    new_estimator: Callable[[], IterationEstimator], rows: TrainingSet, groups: NDArray[np.str_]
) -> FloatArray:
    """Iteration times of shape (rows,), each from an estimator fitted without the row's group."""
    predicted = np.full(len(rows.table), np.nan)
    for group in sorted(set(groups)):
        left_out = groups == group
        if left_out.all():
            continue
        estimator = new_estimator().fit(
            rows.table.rows(~left_out), rows.iteration_ms[~left_out], rows.mega_multiply_add_ms
        )
        predicted[left_out] = estimator.predict(rows.table.rows(left_out))
    return predicted


def run_variability_pct(rows: TrainingSet) -> float | None:
    """Median over points of the relative standard deviation between processes, in percent."""
    deviations = [
        100 * float(np.std(times, ddof=1) / np.mean(times))
        for runs in rows.runs_ms
        if len(times := list(runs.values())) > 1
    ]
    return round(float(np.median(deviations)), 3) if deviations else None


def _errors(rows: TrainingSet, unseen_ms: FloatArray) -> dict[ErrorKind, dict[str, list[float]]]:
    errors: dict[ErrorKind, dict[str, list[float]]] = {
        kind: defaultdict(list) for kind in ErrorKind if kind is not ErrorKind.LAYERS
    }
    for position, slug in enumerate(rows.table.architectures):
        errors[ErrorKind.RUN][str(slug)].extend(run_errors(rows.runs_ms[position]))
    for curve in _curves(rows):
        slug = str(rows.table.architectures[curve[0]])
        sizes, measured_ms = rows.table.batch_sizes[curve], rows.iteration_ms[curve]
        errors[ErrorKind.INTERPOLATED][slug].extend(interpolation_errors(sizes, measured_ms))
        errors[ErrorKind.EXTRAPOLATED][slug].extend(extrapolation_errors(sizes, measured_ms))
        if np.isfinite(unseen_ms[curve]).all():
            errors[ErrorKind.REGRESSED][slug].extend(np.log(measured_ms / unseen_ms[curve]))
            errors[ErrorKind.ANCHORED][slug].extend(
                anchoring_errors(sizes, measured_ms, unseen_ms[curve])
            )
    return {kind: dict(networks) for kind, networks in errors.items()}


def _curves(rows: TrainingSet) -> list[NDArray[np.intp]]:
    """Positions of each curve, ascending in batch size: a new one begins where that falls."""
    starts = [
        position
        for position in range(1, len(rows.table))
        if rows.table.architectures[position] != rows.table.architectures[position - 1]
        or rows.table.batch_sizes[position] <= rows.table.batch_sizes[position - 1]
    ]
    return np.split(np.arange(len(rows.table)), starts)


def _five_digits(milliseconds: float) -> float:
    return float(f"{milliseconds:.5g}")


def _as_json(accuracy: Accuracy | None) -> dict[str, float] | None:
    return asdict(accuracy) if accuracy else None
