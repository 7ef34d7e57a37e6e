"""Whose turn it is: one probe at a time on one computer, so many instances in the cloud.

Jobs that wait for the same place form a line, the oldest first, so that none is starved.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Count, Q
from django.utils import timezone

from benchmarking.models import BenchmarkJob

State = BenchmarkJob.State
HostKind = BenchmarkJob.HostKind

# Jobs in these states have a place, or are about to give it back.
_HOLDING = (State.LAUNCHING, State.BOOTING, State.RUNNING, State.COLLECTING, State.CLEANING)
_IN_LINE = Q(state=State.QUEUED) | Q(
    state=State.WAITING_CAPACITY, host_state__waiting__kind="limit"
)


# One place is free; the second one is for the case that the first cannot use it.
WOKEN_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Line:
    """The jobs that share places with a job, and how many places there are."""

    jobs: Q
    places: int


def line_of(job: BenchmarkJob) -> Line:
    """The line that ``job`` stands in."""
    same_kind = Q(host_kind=job.host_kind)
    if job.host_kind == HostKind.EC2:
        return Line(same_kind, settings.BENCHMARK_INSTANCES)
    if job.host_kind == HostKind.SSH:
        return Line(same_kind & Q(remote_host=job.remote_host_id), 1)
    return Line(same_kind, 1)


def jobs_before(job: BenchmarkJob) -> int:
    """How many jobs must leave before it is the turn of ``job``; 0: it is."""
    line = line_of(job)
    is_older = Q(created_at__lt=job.created_at) | Q(created_at=job.created_at, pk__lt=job.pk)
    counts = (
        BenchmarkJob.objects.filter(line.jobs)
        .exclude(state__in=BenchmarkJob.FINAL_STATES)
        .exclude(pk=job.pk)
        .aggregate(
            holding=Count("pk", filter=Q(state__in=_HOLDING)),
            older=Count("pk", filter=_IN_LINE & is_older),
        )
    )
    # Without any place a job goes on, to be told at the launch which limit is in its way.
    places = max(1, line.places)
    return max(0, counts["holding"] + counts["older"] - places + 1)


def wake_next(job: BenchmarkJob) -> list[uuid.UUID]:
    """Make the steps of those due whose turn comes when ``job`` leaves, and return their ids."""
    line = line_of(job)
    waiting = BenchmarkJob.objects.filter(line.jobs & _IN_LINE).order_by("created_at", "pk")
    ids = list(waiting.values_list("pk", flat=True)[:WOKEN_AT_ONCE])
    now = timezone.now()
    BenchmarkJob.objects.filter(_IN_LINE, pk__in=ids, due_at__gt=now, step_failures=0).update(
        due_at=now
    )
    return ids
