"""The rows of cloud instances: what is asked for, what became of it, what it cost.

This module is the only writer of ``CloudInstance``. A change of state is a compare-and-swap:
of a launcher, a reaper and an operator's command that come to the same row, one writes, and
the others find out. What is written is what the cloud said, never a hope: ``TERMINATED`` means
that a description of the instance said so, or that it is known never to have been made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from benchmarking.jobs import budget
from benchmarking.jobs.lifecycle import State as JobState
from benchmarking.jobs.lifecycle import write_event
from benchmarking.models import BenchmarkJob, CloudInstance
from benchmarking.money import usd_text

State = CloudInstance.State

LAUNCHING_STATES = (JobState.LAUNCHING, JobState.WAITING_CAPACITY)
_MESSAGE_LENGTH = CloudInstance._meta.get_field("message").max_length or 0
_CODE_LENGTH = CloudInstance._meta.get_field("cloud_code").max_length or 0


class IntentRefusedError(Exception):
    """The job does not launch any more, or another process has launched for it."""


@dataclass(frozen=True, slots=True)
class LaunchIntent:
    """Everything about a launch that is decided before the cloud is asked.

    ``request`` is what RunInstances gets but the user data; a replay sends the same. At
    ``expires_at`` the instance ends itself; what it costs until then is reserved.
    """

    attempt: int
    region: str
    zone: str
    instance_type: str
    price_kind: str
    client_token: str
    request: Mapping[str, Any]
    user_data_sha256: str
    usd_per_hour: Decimal
    intended_at: datetime
    expires_at: datetime


def live_instance(job: BenchmarkJob) -> CloudInstance | None:
    """The one instance of the job that runs, may run, or may still come to run."""
    return live_instances().filter(job=job).first()


def live_instances() -> QuerySet[CloudInstance]:
    """All rows whose instance is not known to be over."""
    return CloudInstance.objects.filter(state__in=CloudInstance.LIVE_STATES)


def write_intent(job: BenchmarkJob, intent: LaunchIntent) -> CloudInstance:
    """Reserve the money of a launch and keep its whole request, both or neither.

    Raises
    ------
    IntentRefusedError
        If the job is not being launched any more, or has a live instance already.
    budget.LimitReachedError
        If a limit of the installation forbids it.
    """
    hours = Decimal((intent.expires_at - intent.intended_at) // timedelta(seconds=1)) / 3600
    try:
        with transaction.atomic():
            # Locked, so that a cancellation comes either before the intent, which is then
            # refused, or after it, and finds the row.
            job_row = BenchmarkJob.objects.select_for_update(no_key=True).filter(
                pk=job.pk, state__in=LAUNCHING_STATES
            )
            if not job_row.values_list("pk", flat=True):
                raise IntentRefusedError("the job is not being launched any more")
            if live_instances().filter(job=job).exists():
                # Before the limits: the money of this very launch is reserved already.
                raise IntentRefusedError("another process has launched for this job")
            reserved_usd = budget.reserve(
                job,
                region=intent.region,
                usd_per_hour=intent.usd_per_hour,
                hours=hours,
            )
            return CloudInstance.objects.create(
                job=job,
                attempt=intent.attempt,
                region=intent.region,
                zone=intent.zone,
                instance_type=intent.instance_type,
                price_kind=intent.price_kind,
                client_token=intent.client_token,
                request=dict(intent.request),
                user_data_sha256=intent.user_data_sha256,
                usd_per_hour=intent.usd_per_hour,
                reserved_usd=reserved_usd,
                intended_at=intent.intended_at,
                expires_at=intent.expires_at,
            )
    except IntegrityError as error:
        raise IntentRefusedError("another process has launched for this job") from error


def mark_asked(instance: CloudInstance) -> bool:
    """Note that the cloud is asked now; false if the intent has been given up meanwhile."""
    return _change(instance, (State.INTENDED,), asked_at=timezone.now())


def mark_refused(instance: CloudInstance, message: str, code: str) -> bool:
    """The cloud said no, so that there is no instance of this intent and nothing to pay."""
    return _finish(instance, State.TERMINATED, (State.INTENDED,), message, code)


def mark_never_made(instance: CloudInstance) -> bool:
    """Nothing was asked for, or long enough ago that an instance of it would be seen.

    False, and nothing written, if it was asked for (again) since ``instance`` was read.
    """
    return _finish(
        instance,
        State.TERMINATED,
        (State.INTENDED,),
        "It was never launched.",
        conditions=_same("asked_at", instance.asked_at),
    )


def mark_launched(
    instance: CloudInstance, *, instance_id: str, zone: str, launched_at: datetime
) -> bool:
    """The cloud has made it; false if the row was given up meanwhile: then it must be ended."""
    with transaction.atomic():
        launched = _change(
            instance,
            (State.INTENDED,),
            state=State.PENDING,
            instance_id=instance_id,
            launched_at=launched_at,
        )
        if launched:
            write_event(
                instance.job,
                message=(
                    f"Launched {instance_id}, a {instance.instance_type} in {zone} at "
                    f"{instance.usd_per_hour.normalize():f} USD per hour."
                ),
            )
    if not launched:
        instance.refresh_from_db()
    is_live = instance.state in CloudInstance.LIVE_STATES
    return launched or (is_live and instance.instance_id == instance_id)


def mark_running(instance: CloudInstance, address: str) -> bool:
    """It runs and has an address."""
    return _change(instance, (State.PENDING,), state=State.RUNNING, address=address)


def mark_terminating(instance: CloudInstance) -> bool:
    """The cloud is asked to end it."""
    return _change(
        instance,
        (State.PENDING, State.RUNNING),
        state=State.TERMINATING,
        terminate_asked_at=timezone.now(),
    )


def mark_terminated(instance: CloudInstance, message: str = "", code: str = "") -> bool:
    """A description said that it is over, and by which code; its cost is settled."""
    return _finish(
        instance,
        State.TERMINATED,
        (State.PENDING, State.RUNNING, State.TERMINATING, State.LOST),
        message or "Terminated, as the cloud confirms.",
        code,
    )


def mark_lost(instance: CloudInstance, message: str) -> bool:
    """It is gone without anybody having asked for that; its cost is settled up to now."""
    return _finish(instance, State.LOST, (State.PENDING, State.RUNNING), message)


def note(instance: CloudInstance, message: str) -> bool:
    """Keep what the cloud last said, and tell the job's events if that is news."""
    message = message[:_MESSAGE_LENGTH]
    with transaction.atomic():
        rows = CloudInstance.objects.filter(pk=instance.pk).exclude(message=message)
        if rows.update(message=message) != 1:
            return False
        write_event(instance.job, message=message)
    instance.message = message
    return True


def _change(
    instance: CloudInstance,
    expected: tuple[State, ...],
    conditions: Mapping[str, Any] | None = None,
    **values: Any,
) -> bool:
    rows = CloudInstance.objects.filter(pk=instance.pk, state__in=expected, **(conditions or {}))
    if rows.update(**values) != 1:
        return False
    for name, value in values.items():
        setattr(instance, name, value)
    return True


def _finish(
    instance: CloudInstance,
    to: State,
    expected: tuple[State, ...],
    message: str,
    code: str = "",
    *,
    conditions: Mapping[str, Any] | None = None,
) -> bool:
    with transaction.atomic():
        finished = _change(
            instance,
            expected,
            conditions,
            state=to,
            cloud_code=code[:_CODE_LENGTH],
            message=message[:_MESSAGE_LENGTH],
            terminated_at=timezone.now(),
        )
        if finished:
            cost_usd = budget.settle(instance)
            what = instance.instance_id or f"{instance.instance_type} in {instance.zone}"
            cost = f" It cost {usd_text(cost_usd)}." if instance.instance_id else ""
            write_event(instance.job, message=f"{what}: {message}{cost}")
    return finished


def _same(name: str, value: Any) -> dict[str, Any]:
    """The condition that a column still has ``value``, which ``=`` does not say of NULL."""
    return {f"{name}__isnull": True} if value is None else {name: value}
