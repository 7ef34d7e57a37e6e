"""The floor that measures: what can be timed, where, and every timing taken."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

from django.apps import AppConfig

from benchmarking.prices.tasks import BEAT_SCHEDULE as PRICE_SCHEDULE


class BenchmarkingConfig(AppConfig):
    """``beat_schedule`` holds this app's periodic tasks in Celery's own format."""

    name = "benchmarking"
    default_auto_field = "django.db.models.BigAutoField"

    beat_schedule: ClassVar[dict[str, dict[str, Any]]] = {
        "sweep benchmark jobs": {
            "task": "benchmarking.tasks.sweep_benchmark_jobs",
            "schedule": 15.0,
            # A sweep that waited for longer is followed by the next one anyway.
            "options": {"expires": 15.0},
        },
        "launch an automatic benchmark": {
            "task": "benchmarking.tasks.launch_automatic_benchmark",
            "schedule": 600.0,
            "options": {"expires": 600.0},
        },
        "reap cloud instances": {
            "task": "benchmarking.tasks.reap_cloud_instances",
            "schedule": 300.0,
            "options": {"queue": "maintenance", "expires": 300.0},
        },
        **PRICE_SCHEDULE,
    }

    def ready(self) -> None:
        """Register the checks, which need models."""
        import_module("benchmarking.checks")
