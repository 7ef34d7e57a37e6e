"""The floor that answers: forecasts, advice, pages and API."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from celery.schedules import crontab
from django.apps import AppConfig


class PredictionsConfig(AppConfig):
    """``beat_schedule`` holds this app's periodic tasks in Celery's own format."""

    name = "predictions"
    default_auto_field = "django.db.models.BigAutoField"

    beat_schedule: ClassVar[dict[str, dict[str, Any]]] = {
        "sweep-stale-curves": {
            "task": "predictions.tasks.sweep_stale_curves",
            "schedule": timedelta(minutes=2),
        },
        "remove-expired-uploads": {
            "task": "predictions.tasks.remove_expired_uploads",
            # A clock time: beat forgets how long ago a day was when it is started again.
            "schedule": crontab(hour=3, minute=40),
        },
    }

    def ready(self) -> None:
        """Listen to the floors below."""
        from benchmarking.signals import timings_stored
        from predictions.staleness import on_models_trained, on_timings_stored
        from regression.signals import models_trained

        timings_stored.connect(on_timings_stored, dispatch_uid="predictions.timings_stored")
        models_trained.connect(on_models_trained, dispatch_uid="predictions.models_trained")
