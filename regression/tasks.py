"""Celery's way in: train again when timings came, and find what a lost message left behind."""

from __future__ import annotations

from celery import shared_task

from regression.retraining import retrain_after_quiet, retrain_outdated

# Training judges the model on every CNN left out in turn, which takes a minute.
LIMITS = {"soft_time_limit": 900, "time_limit": 960}


@shared_task(name="regression.tasks.retrain_machine", **LIMITS)
def retrain_machine(machine_id: int, timings_seen: int) -> None:
    """Train a machine's models, unless more timings came since the message was sent."""
    retrain_after_quiet(machine_id, timings_seen)


@shared_task(name="regression.tasks.sweep_models", **LIMITS)
def sweep_models() -> None:
    """Train whatever has timings that its model has not seen."""
    retrain_outdated()
