"""The floor that learns: from timings to iteration time."""

from __future__ import annotations

from typing import Any, ClassVar

from django.apps import AppConfig


class RegressionConfig(AppConfig):
    """``beat_schedule`` holds this app's periodic tasks in Celery's own format."""

    name = "regression"
    default_auto_field = "django.db.models.BigAutoField"

    beat_schedule: ClassVar[dict[str, dict[str, Any]]] = {
        "sweep-models": {"task": "regression.tasks.sweep_models", "schedule": 600.0},
    }

    def ready(self) -> None:
        """Listen for new timings, and offer what was learnt to the planner below."""
        from benchmarking.estimates import register_estimates
        from benchmarking.signals import timings_stored
        from regression.planning import LearntEstimates
        from regression.retraining import schedule_retraining

        register_estimates(LearntEstimates())
        timings_stored.connect(schedule_retraining, dispatch_uid="regression-retrain")
