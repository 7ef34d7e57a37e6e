"""The Celery application; its settings are the ``CELERY_*`` names of ``settings.py``."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "predictor_site.settings")

app = Celery("epochcast")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


def collect_beat_schedule() -> dict[str, dict[str, Any]]:
    """Join what every app declares as ``beat_schedule`` in its AppConfig.

    Raises
    ------
    ValueError
        If two apps declare an entry of the same name.
    """
    from django.apps import apps

    schedule: dict[str, dict[str, Any]] = {}
    for config in apps.get_app_configs():
        for name, entry in getattr(config, "beat_schedule", {}).items():
            if name in schedule:
                raise ValueError(
                    f"periodic task {name!r} is declared twice, again by {config.name}"
                )
            schedule[name] = entry
    return schedule


@app.on_after_finalize.connect
def set_beat_schedule(sender: Celery, **_: object) -> None:
    """Give beat the apps' schedule: only now are the apps certain to be loaded."""
    sender.conf.beat_schedule = collect_beat_schedule()
