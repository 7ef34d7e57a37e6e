"""Celery tasks that keep the stored curves fresh; each is a few lines around a function."""

from __future__ import annotations

from celery import shared_task

from predictions.curves import refresh_stale_curves
from predictions.staleness import mark_what_signals_missed
from predictions.uploads.services import remove_expired_networks

# As many as fit well into a task's time limit.
CURVES_AT_A_TIME = 60


@shared_task
def refresh_curves(device_id: int) -> int:
    """Compute the stale curves of one device again; the sweep does what is left."""
    return refresh_stale_curves(CURVES_AT_A_TIME, device_id)


@shared_task
def sweep_stale_curves() -> int:
    """Find curves whose news was lost, and compute stale ones again."""
    mark_what_signals_missed()
    return refresh_stale_curves(CURVES_AT_A_TIME)


@shared_task
def remove_expired_uploads() -> int:
    """Delete networks that people uploaded 30 days ago and did not keep."""
    return remove_expired_networks()
