"""A stored evaluation of a machine, as training leaves it."""

from __future__ import annotations

from datetime import UTC, datetime

from benchmarking.models import Machine
from benchmarking.tests.factories import create_stack
from regression.models import Evaluation, TrainedModel

REPORT = {
    "cnns": 45,
    "points": 270,
    "run_variability_pct": 1.25,
    "unseen_cnn": {"mape": 5.31, "median_ape": 3.74, "p90_ape": 11.8},
    "unseen_family": {"mape": 6.6, "median_ape": 5.0, "p90_ape": 14.0},
    "paper_method": {"unseen_cnn": {"mape": 16.2, "median_ape": 12.3, "p90_ape": 31.4}},
    "interval": {
        "nominal": 0.8,
        "coverage": 0.782,
        "coverage_low": 0.67,
        "coverage_high": 0.91,
        "mean_width_pct": 13.3,
    },
}
BY_KIND = {
    kind: {
        "mape": 5.0 + number,
        "median_ape": 2.2 + number,
        "p90_ape": 20.3 + number,
        "points": 600 + number,
        "coverage": 0.811 + number / 100,
        "coverage_low": 0.6,
        "coverage_high": 0.95,
        "cnns": 44,
        "mean_width_pct": 11.0 + number,
    }
    for number, kind in enumerate(
        ("run", "regressed", "anchored", "interpolated", "extrapolated", "layers")
    )
}
POINTS = [
    {"architecture": "resnet50", "batch_size": 1, "measured_ms": 100.0, "predicted_ms": 105.0},
    {"architecture": "resnet50", "batch_size": 8, "measured_ms": 800.0, "predicted_ms": 792.0},
    {"architecture": "alexnet", "batch_size": 1, "measured_ms": 50.0, "predicted_ms": 40.0},
]


def store_evaluation(machine: Machine) -> None:
    """The evaluation, and the active model with figures by what was known, beside an old one."""
    stack = create_stack()
    Evaluation.objects.create(
        machine=machine,
        stack=stack,
        data_hash="0" * 64,
        evaluated_at=datetime(2026, 11, 29, tzinfo=UTC),
        report=REPORT,
        points=POINTS,
    )
    for version, is_active in (("1-old", False), ("1-abc", True)):
        TrainedModel.objects.create(
            machine=machine,
            device=machine.device,
            stack=stack,
            version=version,
            is_active=is_active,
            features=[],
            data_hash="0" * 64,
            layer_timing_count=0,
            iteration_timing_count=0,
            networks=45,
            points=270,
            coefficients={},
            interval_errors={},
            metrics={"by_kind": BY_KIND if is_active else {}},
        )
