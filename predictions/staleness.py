"""News from the floors below: which stored curves it makes stale, and who computes them again.

A curve is marked in the process that sends the news, so that a forecast is right even where no
worker runs; Celery only computes ahead of the next question.
"""

from __future__ import annotations

import logging
from typing import Any

from django.db import transaction
from django.db.models import Max
from kombu.exceptions import OperationalError

from benchmarking.models import Machine, MeasurementRun
from predictions.curves import mark_outdated, mark_stale
from regression.models import TrainedModel

logger = logging.getLogger(__name__)


def on_timings_stored(sender: Any, machine_id: int, **kwargs: Any) -> None:
    """Curves of the machine's device are stale: layer timings serve every machine with it."""
    _device_changed(Machine.objects.values_list("device_id", flat=True).get(pk=machine_id))


def on_models_trained(sender: Any, device_id: int, **kwargs: Any) -> None:
    """Curves of the device are stale."""
    _device_changed(device_id)


def mark_what_signals_missed() -> int:
    """Mark curves older than a model or a measurement of their device; returns how many."""
    trained = TrainedModel.objects.values_list("device_id").annotate(Max("trained_at"))
    measured = MeasurementRun.objects.values_list("machine__device_id").annotate(Max("started_at"))
    return mark_outdated(dict(trained.order_by())) + mark_outdated(dict(measured.order_by()))


def _device_changed(device_id: int) -> None:
    if mark_stale([device_id]):
        transaction.on_commit(lambda: _refresh_soon(device_id))


def _refresh_soon(device_id: int) -> None:
    # Imported here: the tasks import this module.
    from predictions.tasks import refresh_curves

    try:
        refresh_curves.delay(device_id)
    except (OperationalError, OSError):
        # The mark is stored: the sweep, or the next question, computes the curves.
        logger.warning("the broker does not answer; curves stay stale", exc_info=True)
