"""The states of a job, which may follow which, and why a job ends.

This module is the only writer of ``BenchmarkJob.state``. A transition is a compare-and-swap:
of two processes that want to move the same job, one finds that the state is no longer what it
read, and drops its result.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db import transaction
from django.utils import timezone

from benchmarking.jobs.claims import release_claims
from benchmarking.jobs.deadlines import state_deadline
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a reason means: the final state, whether to try again, a sentence for the operator."""

    final_state: State
    retry: bool
    sentence: str


class Reason(StrEnum):
    """Why a job is cleaned up."""

    COMPLETED = "completed"
    TIME_BUDGET = "time_budget"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    PROBE_REFUSED = "probe_refused"
    PROBE_DIED = "probe_died"
    PROBE_STOPPED = "probe_stopped"
    DEVICE_BROKEN = "device_broken"
    BAD_OUTPUT = "bad_output"
    WRONG_MACHINE = "wrong_machine"
    STEP_FAILED = "step_failed"
    NO_CAPACITY = "no_capacity"
    QUOTA = "quota"
    LIMIT = "limit"
    CONFIGURATION = "configuration"
    CREDENTIALS = "credentials"
    LAUNCH_BUG = "launch_bug"
    INSTANCE_LOST = "instance_lost"
    HOST_KEY_MISMATCH = "host_key_mismatch"
    LOGIN_REFUSED = "login_refused"
    LAUNCH_TIMEOUT = "launch_timeout"
    BOOT_TIMEOUT = "boot_timeout"
    SETUP_FAILED = "setup_failed"
    DISK_FULL = "disk_full"
    NO_PROGRESS = "no_progress"
    SPOT_INTERRUPTED = "spot_interrupted"
    MACHINE_RETIRED = "machine_retired"

    @property
    def outcome(self) -> Outcome:
        """The final state, the retry decision and the operator's sentence."""
        return _OUTCOMES[self]


_OUTCOMES: Mapping[Reason, Outcome] = {
    Reason.COMPLETED: Outcome(State.SUCCEEDED, False, "Everything that was planned is measured."),
    Reason.TIME_BUDGET: Outcome(
        State.SUCCEEDED, False, "The time budget is used up; a new job measures what is left."
    ),
    Reason.CANCELLED: Outcome(
        State.CANCELLED, False, "Cancelled; finished timings are kept, a new job measures the rest."
    ),
    Reason.DEADLINE: Outcome(
        State.FAILED,
        False,
        "The job passed its deadline; finished timings are kept, a new job measures the rest.",
    ),
    Reason.PROBE_REFUSED: Outcome(
        State.FAILED,
        False,
        "The probe cannot carry out this plan there; its message says why. Mend the image or the "
        "interpreter that it is started with.",
    ),
    Reason.PROBE_DIED: Outcome(
        State.FAILED, True, "The probe ended early; a new job measures what is left."
    ),
    Reason.PROBE_STOPPED: Outcome(
        State.FAILED, True, "Somebody stopped the probe; a new job measures what is left."
    ),
    Reason.DEVICE_BROKEN: Outcome(
        State.FAILED, True, "The device failed; check it before a new job measures what is left."
    ),
    Reason.BAD_OUTPUT: Outcome(
        State.FAILED, False, "The results hold a wrong line; the raw file is kept, look at it."
    ),
    Reason.WRONG_MACHINE: Outcome(
        State.FAILED,
        False,
        "The timings were not taken on this machine and were not stored; correct the instance type "
        "or the name by which the catalogue knows its device.",
    ),
    Reason.STEP_FAILED: Outcome(
        State.FAILED,
        True,
        "A step failed five times in a row; its last traceback is in the events, please report it.",
    ),
    Reason.NO_CAPACITY: Outcome(
        State.FAILED,
        False,
        "No zone had a machine of this type for as long as the job may wait; allow more regions "
        "or another price kind, or try later.",
    ),
    Reason.QUOTA: Outcome(
        State.FAILED,
        False,
        "The account's quota does not allow this machine; ask the provider for a higher one.",
    ),
    Reason.LIMIT: Outcome(
        State.FAILED,
        False,
        "A spending limit of this installation forbids the launch; raise it or wait for the "
        "next month.",
    ),
    Reason.CONFIGURATION: Outcome(
        State.FAILED,
        False,
        "The cloud refuses the request as it is set up; its message says which setting to mend.",
    ),
    Reason.CREDENTIALS: Outcome(
        State.FAILED,
        False,
        "The cloud does not accept the credentials; renew them where the workers run.",
    ),
    Reason.LAUNCH_BUG: Outcome(
        State.FAILED,
        False,
        "The cloud knows this launch with another request, which is a fault of the program; "
        "please report it with the events of this job.",
    ),
    Reason.INSTANCE_LOST: Outcome(
        State.FAILED, True, "The machine is gone; finished timings are kept."
    ),
    Reason.HOST_KEY_MISMATCH: Outcome(
        State.FAILED,
        False,
        "Another host key than the pinned one answered; nothing was run there. Find out who "
        "answers at that address before you try again.",
    ),
    Reason.LOGIN_REFUSED: Outcome(
        State.FAILED, False, "The host refuses the login; check the user and its key there."
    ),
    Reason.LAUNCH_TIMEOUT: Outcome(
        State.FAILED,
        True,
        "The cloud did not answer, or did not give the machine in time; see whether it works for "
        "other programs.",
    ),
    Reason.BOOT_TIMEOUT: Outcome(
        State.FAILED, True, "The machine did not answer over SSH in time; look at its image."
    ),
    Reason.SETUP_FAILED: Outcome(
        State.FAILED,
        False,
        "The machine lacks what the probe needs; its message says what. Mend the image or the "
        "name of the interpreter.",
    ),
    Reason.DISK_FULL: Outcome(
        State.FAILED,
        False,
        "The machine's disk is full; finished timings are kept. Give it a larger disk.",
    ),
    Reason.NO_PROGRESS: Outcome(
        State.FAILED, True, "One piece of work took far longer than it may; the rest is kept."
    ),
    Reason.SPOT_INTERRUPTED: Outcome(
        State.FAILED, True, "The spot machine was taken away; finished timings are kept."
    ),
    Reason.MACHINE_RETIRED: Outcome(
        State.FAILED, False, "This machine cannot be rented any more; choose another one."
    ),
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
