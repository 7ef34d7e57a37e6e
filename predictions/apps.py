"""The floor that answers: forecasts, advice, pages and API."""

from __future__ import annotations

from typing import Any, ClassVar

from django.apps import AppConfig


class PredictionsConfig(AppConfig):
    """``beat_schedule`` holds this app's periodic tasks in Celery's own format."""

    name = "predictions"
    default_auto_field = "django.db.models.BigAutoField"

    beat_schedule: ClassVar[dict[str, dict[str, Any]]] = {}
