"""What one step of a job works with, and how it may write what came of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from benchmarking.hosts.base import Host, HostJob
from benchmarking.jobs.lifecycle import State, job_transition, write_event
from benchmarking.jobs.reasons import Reason
from benchmarking.models import BenchmarkJob, Price

Ring = Callable[[uuid.UUID, float], None]
"""Tells a worker of a job whose next step is due in so many seconds."""


class StaleLeaseError(Exception):
    """Somebody else has the job now; what this step found out is dropped."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a state's handler works with: the job as it was read, its host, its lease.

    ``ring`` tells the workers of other jobs that can go on; ``None`` where nobody goes on with
    more than this job, as at a terminal.
    """

    job: BenchmarkJob
    host: Host
    host_job: HostJob
    lease_token: uuid.UUID
    poll_seconds: float
    now: datetime
    ring: Ring | None = None

    @property
    def is_overdue(self) -> bool:
        """Whether the whole job has passed its deadline."""
        return self.now > self.job.deadline

    @property
    def is_state_overdue(self) -> bool:
        """Whether what this state waits for should have come by now."""
        deadline = self.job.state_deadline
        return deadline is not None and self.now > deadline

    def move(
        self,
        to: State,
        *,
        reason: Reason | None = None,
        message: str = "",
        changes: Mapping[str, Any] | None = None,
    ) -> None:
        """Change the job's state and keep what the host wants kept, under this lease only."""
        moved = job_transition(
            job=self.job,
            to=to,
            reason=reason,
            message=message,
            lease_token=self.lease_token,
            changes={"host_state": self.host_job.state, **(changes or {})},
        )
        if not moved:
            raise StaleLeaseError

    def clean(self, reason: Reason, message: str = "") -> float:
        """End the job for ``reason``; return the seconds until the next step."""
        changes: dict[str, Any] = {}
        if reason is Reason.SPOT_INTERRUPTED or (
            reason is Reason.INSTANCE_LOST and self.job.price_kind == Price.Kind.SPOT
        ):
            changes["interruptions"] = self.job.interruptions + 1
        self.move(
            State.CLEANING,
            reason=reason,
            message=message or reason.outcome.sentence,
            changes=changes,
        )
        return 0.0

    def say_once(self, message: str) -> None:
        """Tell the job's events why it waits, unless they have just been told."""
        if self.host_job.state.get("said") == message:
            return
        self.host_job.state["said"] = message
        with transaction.atomic():
            self.write()
            write_event(self.job, message=message)

    def write(self, **changes: Any) -> None:
        """Set columns of the job, if it is still in its state and under this lease."""
        if self.rows().update(host_state=self.host_job.state, **changes) != 1:
            raise StaleLeaseError

    def rows(self) -> QuerySet[BenchmarkJob]:
        """The job's row, if nobody has moved it or taken its lease."""
        return BenchmarkJob.objects.filter(
            pk=self.job.pk, lease_token=self.lease_token, state=self.job.state
        )
