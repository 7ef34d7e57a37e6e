"""The stored evaluations of machines as the accuracy page shows them.

Errors are in percent, widths in percent of the forecast, all from what training and evaluating
stored: nothing here is computed anew but sums over stored points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from predictions.display import format_duration
from regression.models import Evaluation, TrainedModel
from regression.sources import Source


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """One line of figures: what was known when the forecasts were made, and how they did.

    ``coverage_pct`` is the share of points inside their interval; ``coverage_low_pct`` and
    ``coverage_high_pct`` say how sure that is with so many CNNs. ``None`` where not known.
    """

    title: str
    cnns: int | None
    points: int | None
    mape: float
    median_ape: float
    p90_ape: float
    is_baseline: bool = False
    coverage_pct: float | None = None
    coverage_low_pct: float | None = None
    coverage_high_pct: float | None = None
    width_pct: float | None = None

    @classmethod
    def of_kind(cls, title: str, figures: Mapping[str, Any]) -> Self:
        """A line of a trained model's figures by kind of error."""
        return cls(
            title=title,
            cnns=figures["cnns"],
            points=figures["points"],
            mape=figures["mape"],
            median_ape=figures["median_ape"],
            p90_ape=figures["p90_ape"],
            coverage_pct=100 * figures["coverage"],
            coverage_low_pct=100 * figures["coverage_low"],
            coverage_high_pct=100 * figures["coverage_high"],
            width_pct=figures["mean_width_pct"],
        )


@dataclass(frozen=True, slots=True)
class Point:
    """An iteration as measured, and as predicted by a model that had not seen its CNN."""

    architecture: str
    batch_size: int
    measured_ms: float
    predicted_ms: float

    @property
    def error_pct(self) -> float:
        """Positive where the forecast is longer than what was measured."""
        return 100 * (self.predicted_ms / self.measured_ms - 1)

    @property
    def error_text(self) -> str:
        """The signed error, as in ``+2.1 %``."""
        return f"{self.error_pct:+.1f} %"

    @property
    def times_text(self) -> str:
        """What was measured and what was predicted."""
        measured, predicted = (
            format_duration(ms / 1000, 0.02) for ms in (self.measured_ms, self.predicted_ms)
        )
        return f"{measured} \N{RIGHTWARDS ARROW} {predicted}"


@dataclass(frozen=True, slots=True)
class CnnLine:
    """A CNN's points in the order of the machine's batch sizes, ``None`` where there is none."""

    architecture: str
    mape: float
    points: tuple[Point | None, ...]


@dataclass(frozen=True, slots=True)
class MachineAccuracy:
    """What is stored of one machine and software stack; lines by source, best source first.

    ``headline`` is the line of CNNs left out, ``None`` with too few CNNs for one.
    """

    machine: str
    device: str
    stack: str
    cnns: int | None
    points: tuple[Point, ...]
    run_variability_pct: float | None
    nominal_pct: float | None
    model_version: str
    evaluated_at: datetime
    headline: ErrorLine | None
    lines: Mapping[Source, tuple[ErrorLine, ...]]

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """Of all points, ascending."""
        return tuple(sorted({point.batch_size for point in self.points}))

    def cnn_lines(self) -> list[CnnLine]:
        """Every CNN with its points, the worst first."""
        by_cnn: dict[str, dict[int, Point]] = {}
        for point in self.points:
            by_cnn.setdefault(point.architecture, {})[point.batch_size] = point
        lines = [
            CnnLine(
                architecture,
                sum(abs(point.error_pct) for point in found.values()) / len(found),
                tuple(found.get(size) for size in self.batch_sizes),
            )
            for architecture, found in by_cnn.items()
        ]
        return sorted(lines, key=lambda line: -line.mape)


@dataclass(frozen=True, slots=True)
class LineGroup:
    """The lines of one source on one machine."""

    machine: MachineAccuracy
    lines: tuple[ErrorLine, ...]


def group_lines(machines: Sequence[MachineAccuracy], source: Source) -> list[LineGroup]:
    """The machines that have figures of a source."""
    return [
        LineGroup(machine, machine.lines[source]) for machine in machines if machine.lines[source]
    ]


def machine_accuracies() -> list[MachineAccuracy]:
    """One entry for each machine and software stack that was evaluated."""
    trained = {
        (machine_id, stack_id): (version, metrics)
        for machine_id, stack_id, version, metrics in TrainedModel.objects.filter(
            is_active=True
        ).values_list("machine_id", "stack_id", "version", "metrics")
    }
    return [
        _machine_accuracy(
            evaluation, *trained.get((evaluation.machine_id, evaluation.stack_id), ("", {}))
        )
        for evaluation in Evaluation.objects.select_related("machine__device", "stack")
    ]


def _machine_accuracy(
    evaluation: Evaluation, version: str, metrics: Mapping[str, Any]
) -> MachineAccuracy:
    report: Mapping[str, Any] = evaluation.report
    # Keys are those of regression.intervals.ErrorKind, whose module loads slowly.
    by_kind: Mapping[str, Mapping[str, Any]] = metrics.get("by_kind", {})
    unseen_cnn = _unseen_cnn_line(report)
    return MachineAccuracy(
        machine=evaluation.machine.slug,
        device=evaluation.machine.device.name,
        stack=str(evaluation.stack),
        cnns=report.get("cnns"),
        points=tuple(Point(**point) for point in evaluation.points),
        run_variability_pct=report.get("run_variability_pct"),
        nominal_pct=_percent((report.get("interval") or {}).get("nominal")),
        model_version=version,
        evaluated_at=evaluation.evaluated_at,
        headline=unseen_cnn,
        lines={
            Source.MEASURED: _kind_lines(by_kind, {"run": "single processes against all of them"}),
            Source.REGRESSED: (
                *((unseen_cnn,) if unseen_cnn else ()),
                *_kind_lines(
                    by_kind,
                    {"anchored": "CNN left out, but for its other batch sizes"},
                ),
                *_left_out_line(report, "its whole family left out", report.get("unseen_family")),
                *_left_out_line(
                    report,
                    "CNN left out, the original system's method",
                    (report.get("paper_method") or {}).get("unseen_cnn"),
                    is_baseline=True,
                ),
            ),
            Source.INTERPOLATED: _kind_lines(
                by_kind, {"interpolated": "batch sizes held back between their neighbours"}
            ),
            Source.ESTIMATED: _kind_lines(
                by_kind,
                {
                    "extrapolated": "larger batch sizes held back, each doubling",
                    "layers": "layers held back: the sum of a CNN's convolutions",
                },
            ),
        },
    )


def _unseen_cnn_line(report: Mapping[str, Any]) -> ErrorLine | None:
    accuracy = report.get("unseen_cnn")
    if not accuracy:
        return None
    interval = report.get("interval") or {}
    return ErrorLine(
        title="CNN left out",
        cnns=report.get("cnns"),
        points=report.get("points"),
        **accuracy,
        coverage_pct=_percent(interval.get("coverage")),
        coverage_low_pct=_percent(interval.get("coverage_low")),
        coverage_high_pct=_percent(interval.get("coverage_high")),
        width_pct=interval.get("mean_width_pct"),
    )


def _left_out_line(
    report: Mapping[str, Any],
    title: str,
    accuracy: Mapping[str, float] | None,
    *,
    is_baseline: bool = False,
) -> tuple[ErrorLine, ...]:
    if not accuracy:
        return ()
    return (
        ErrorLine(
            title=title,
            cnns=report.get("cnns"),
            points=report.get("points"),
            **accuracy,
            is_baseline=is_baseline,
        ),
    )


def _kind_lines(
    by_kind: Mapping[str, Mapping[str, Any]], titles: Mapping[str, str]
) -> tuple[ErrorLine, ...]:
    return tuple(
        ErrorLine.of_kind(title, by_kind[kind]) for kind, title in titles.items() if kind in by_kind
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
