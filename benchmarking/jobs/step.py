"""What one step of a job works with, and how it may write what came of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from benchmarking.hosts.base import Host, HostJob
from benchmarking.jobs.lifecycle import Reason, State, job_transition
from benchmarking.models import BenchmarkJob


class StaleLeaseError(Exception):
    """Somebody else has the job now; what this step found out is dropped."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a state's handler works with: the job as it was read, its host, its lease."""

    job: BenchmarkJob
    host: Host
    host_job: HostJob
    lease_token: uuid.UUID
    poll_seconds: float
    now: datetime

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

    def write(self, **changes: Any) -> None:
        """Set columns of the job, if it is still in its state and under this lease."""
        if self.rows().update(host_state=self.host_job.state, **changes) != 1:
            raise StaleLeaseError

    def rows(self) -> QuerySet[BenchmarkJob]:
        """The job's row, if nobody has moved it or taken its lease."""
        return BenchmarkJob.objects.filter(
            pk=self.job.pk, lease_token=self.lease_token, state=self.job.state
        )
