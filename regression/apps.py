"""The floor that learns: from timings to iteration time."""

from __future__ import annotations

from typing import Any, ClassVar

from django.apps import AppConfig


class RegressionConfig(AppConfig):
    """``beat_schedule`` holds this app's periodic tasks in Celery's own format."""

    name = "regression"
    default_auto_field = "django.db.models.BigAutoField"

    beat_schedule: ClassVar[dict[str, dict[str, Any]]] = {}
