"""The stored evaluations as the accuracy page shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from regression.models import Evaluation, TrainedModel


@dataclass(frozen=True, slots=True)
class AccuracyLine:
    """The accuracy on one machine; errors in percent, ``None`` where not known.

    ``coverage`` is the share of points inside their interval, aimed at ``nominal``; its own
    ``low`` and ``high`` say how sure that is with so many CNNs.
    """

    machine: str
    device: str
    stack: str
    cnns: int | None
    points: int | None
    mape: float | None
    median_ape: float | None
    p90_ape: float | None
    family_mape: float | None
    baseline_mape: float | None
    run_variability_pct: float | None
    nominal_pct: float | None
    coverage_pct: float | None
    coverage_low_pct: float | None
    coverage_high_pct: float | None
    mean_width_pct: float | None
    model_version: str
    evaluated_at: datetime


def accuracy_lines() -> list[AccuracyLine]:
    """One line for each machine and software stack that was evaluated."""
    versions = {
        (machine_id, stack_id): version
        for machine_id, stack_id, version in TrainedModel.objects.filter(
            is_active=True
        ).values_list("machine_id", "stack_id", "version")
    }
    return [
        _line(evaluation, versions.get((evaluation.machine_id, evaluation.stack_id), ""))
        for evaluation in Evaluation.objects.select_related("machine__device", "stack")
    ]


def _line(evaluation: Evaluation, version: str) -> AccuracyLine:
    report: Mapping[str, Any] = evaluation.report
    unseen = report.get("unseen_cnn") or {}
    interval = report.get("interval") or {}
    return AccuracyLine(
        machine=evaluation.machine.slug,
        device=evaluation.machine.device.name,
        stack=str(evaluation.stack),
        cnns=report.get("cnns"),
        points=report.get("points"),
        mape=unseen.get("mape"),
        median_ape=unseen.get("median_ape"),
        p90_ape=unseen.get("p90_ape"),
        family_mape=(report.get("unseen_family") or {}).get("mape"),
        baseline_mape=((report.get("paper_method") or {}).get("unseen_cnn") or {}).get("mape"),
        run_variability_pct=report.get("run_variability_pct"),
        nominal_pct=_percent(interval.get("nominal")),
        coverage_pct=_percent(interval.get("coverage")),
        coverage_low_pct=_percent(interval.get("coverage_low")),
        coverage_high_pct=_percent(interval.get("coverage_high")),
        mean_width_pct=interval.get("mean_width_pct"),
        model_version=version,
        evaluated_at=evaluation.evaluated_at,
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
