"""When to train again: debounced after new timings, and by a sweep where a message was lost."""

from __future__ import annotations

import logging
from typing import Any

from django.db import transaction
from kombu.exceptions import OperationalError

from benchmarking.models import IterationTiming, LayerTiming, Machine
from regression.models import TrainedModel
from regression.selection import trainable_pairs
from regression.timings import count_timings

logger = logging.getLogger(__name__)

QUIET_SECONDS = 20
"""A benchmark stores timings every few seconds; training waits until they stop for so long."""


def schedule_retraining(sender: Any, machine_id: int, **kwargs: Any) -> None:
    """Receive ``timings_stored``: ask for training once no more timings come."""
    from regression.tasks import retrain_machine

    def send() -> None:
        try:
            retrain_machine.apply_async(
                (machine_id, count_machine_timings(machine_id)), countdown=QUIET_SECONDS
            )
        except OperationalError:
            # Timings must be stored without a broker too; the sweep finds them later.
            logger.warning("training of machine %s could not be queued", machine_id)

    transaction.on_commit(send)


def count_machine_timings(machine_id: int) -> int:
    """All timings of a machine, of either kind."""
    return (
        LayerTiming.objects.filter(run__machine_id=machine_id).count()
        + IterationTiming.objects.filter(run__machine_id=machine_id).count()
    )


def retrain_after_quiet(machine_id: int, timings_seen: int) -> int:
    """Train unless more timings came since, whose own message follows; returns models trained."""
    if count_machine_timings(machine_id) != timings_seen:
        return 0
    machine = Machine.objects.filter(pk=machine_id).first()
    return retrain_outdated(machine) if machine is not None else 0


def retrain_outdated(machine: Machine | None = None) -> int:
    """Train each machine and stack whose active model saw other timings; returns how many.

    Layer timings serve every machine of the device, so that with ``machine`` the others of its
    device are looked at as well. What cannot be trained is logged and does not stop the others.
    """
    from regression.training import TrainingError, train

    trained = 0
    for each, stack in trainable_pairs():
        if machine is not None and each.device_id != machine.device_id:
            continue
        layers, iterations = count_timings(
            device_id=each.device_id, machine_id=each.pk, stack_id=stack.pk
        )
        if TrainedModel.objects.filter(
            machine=each,
            stack=stack,
            is_active=True,
            layer_timing_count=layers,
            iteration_timing_count=iterations,
        ).exists():
            continue
        try:
            train(each, stack)
        except TrainingError as error:
            logger.info("%s", error)
            continue
        trained += 1
    return trained
