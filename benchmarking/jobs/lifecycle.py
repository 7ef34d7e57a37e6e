"""The states of a job, and which may follow which.

This module is the only writer of ``BenchmarkJob.state``. A transition is a compare-and-swap:
of two processes that want to move the same job, one finds that the state is no longer what it
read, and drops its result.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from benchmarking.jobs.claims import release_claims
from benchmarking.jobs.deadlines import state_deadline
from benchmarking.jobs.reasons import Reason
from benchmarking.models import BenchmarkJob, JobEvent

State = BenchmarkJob.State

ALLOWED_TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.LAUNCHING, State.CLEANING}),
    State.LAUNCHING: frozenset({State.BOOTING, State.WAITING_CAPACITY, State.CLEANING}),
    State.WAITING_CAPACITY: frozenset({State.LAUNCHING, State.CLEANING}),
    State.BOOTING: frozenset({State.RUNNING, State.CLEANING}),
    State.RUNNING: frozenset({State.COLLECTING, State.CLEANING}),
    State.COLLECTING: frozenset({State.CLEANING}),
    State.CLEANING: frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED}),
    State.SUCCEEDED: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELLED: frozenset(),
}


class TransitionError(ValueError):
    """A state that may not follow the job's state: a fault of the program."""


def job_transition(
    *,
    job: BenchmarkJob,
    to: State,
    reason: Reason | None = None,
    message: str = "",
    lease_token: uuid.UUID | None = None,
    changes: Mapping[str, Any] | None = None,
) -> bool:
    """Move ``job`` to another state and write an event of it, both or neither.

    Parameters
    ----------
    job
        As it was read; its state must still be that one in the database.
    reason
        Required for ``CLEANING``, which keeps it; the final state must be that of the reason.
    lease_token
        If given, the job's lease must still be this one.
    changes
        Further columns to set along with the state; its deadline is set unless it is among them.

    Returns
    -------
    Whether the job was moved; if not, somebody else was faster and nothing was written.

    Raises
    ------
    TransitionError
        If ``to`` may not follow the job's state, or does not agree with the reason.
    """
    _check_transition(job, to, reason)
    now = timezone.now()
    values: dict[str, Any] = {
        "state": to,
        "step_failures": 0,
        "due_at": now,
        "state_deadline": state_deadline(job, to, now),
        **(changes or {}),
    }
    if reason is not None:
        values["reason"] = reason.value
    if to in BenchmarkJob.FINAL_STATES:
        values["ended_at"] = now
    rows = BenchmarkJob.objects.filter(pk=job.pk, state=job.state)
    if lease_token is not None:
        rows = rows.filter(lease_token=lease_token)
    old_state = job.state
    with transaction.atomic():
        if rows.update(**values) != 1:
            return False
        write_event(job, old_state=old_state, new_state=to, reason=reason, message=message, at=now)
        if to in BenchmarkJob.FINAL_STATES:
            release_claims(job)
    for name, value in values.items():
        setattr(job, name, value)
    return True


def _check_transition(job: BenchmarkJob, to: State, reason: Reason | None) -> None:
    if to not in ALLOWED_TRANSITIONS[State(job.state)]:
        raise TransitionError(f"a job cannot go from {job.state} to {to}")
    if to == State.CLEANING and reason is None:
        raise TransitionError("a job is cleaned up for a reason")
    if to in BenchmarkJob.FINAL_STATES and Reason(job.reason).outcome.final_state != to:
        raise TransitionError(f"a job that ends because of {job.reason} is not {to}")


def write_event(
    job: BenchmarkJob,
    *,
    old_state: str = "",
    new_state: str = "",
    reason: Reason | None = None,
    message: str = "",
    at: datetime | None = None,
) -> JobEvent:
    """Add one line to what happened to ``job``."""
    return JobEvent.objects.create(
        job=job,
        at=at or timezone.now(),
        old_state=old_state,
        new_state=new_state,
        reason=reason.value if reason is not None else "",
        message=message,
    )


def cancel_job(job: BenchmarkJob, *, message: str = "Cancelled.") -> bool:
    """Ask for the end of a job in whatever state it is; what is measured is still collected.

    Returns whether it will end because of this: not if it has ended or is being cleaned up.
    """
    while True:
        job.refresh_from_db(fields=["state", "reason"])
        if job.is_final or job.state == State.CLEANING:
            return False
        if job_transition(job=job, to=State.CLEANING, reason=Reason.CANCELLED, message=message):
            return True
