"""One step of one job: short, repeatable, and safe against a second worker at any moment.

A step takes the job's lease, acts on the host with no transaction open, and writes what came of
it only if the lease is still its own. A worker that dies leaves its lease to expire; the next
step finds everything it needs in the database and on the host.
"""

from __future__ import annotations

import logging
import traceback
import uuid
from datetime import datetime, timedelta
from typing import Any, cast

from django.db import transaction
from django.db.models import Min, Q, QuerySet
from django.utils import timezone

from benchmarking.hosts.base import (
    Host,
    HostFaultError,
    HostJob,
    HostUnavailableError,
)
from benchmarking.hosts.registry import host_of
from benchmarking.jobs.faults import RefusingHost, refused, silent
from benchmarking.jobs.lifecycle import State, job_transition, write_event
from benchmarking.jobs.reasons import Reason
from benchmarking.jobs.step import Ring, StaleLeaseError, Step
from benchmarking.jobs.steps import HANDLERS
from benchmarking.models import BenchmarkJob

logger = logging.getLogger(__name__)

LEASE_SECONDS = 60.0
POLL_SECONDS = 5.0
FAILURES_UNTIL_CLEANING = 5
LONGEST_BACK_OFF_SECONDS = 600.0

# No lease and no wait is longer: a moment further ahead was written by a clock that was wrong.
LONGEST_LEASE = timedelta(minutes=10)
LONGEST_WAIT = timedelta(hours=2)


def advance_job(
    job_id: uuid.UUID,
    *,
    host: Host | None = None,
    ring: Ring | None = None,
    lease_seconds: float = LEASE_SECONDS,
    poll_seconds: float = POLL_SECONDS,
) -> float | None:
    """Bring a job one step further, if that is due and nobody else is at it.

    Parameters
    ----------
    host
        By default the one that the job asks for.
    ring
        Called after the commit with the job's id and the seconds until its next step.
    lease_seconds
        For how long nobody else may touch the job if this process dies in the step.
    poll_seconds
        How often a running probe is looked at.

    Returns
    -------
    Seconds until the next step is due, or ``None`` when nothing more will happen to the job.
    """
    lease_token = _take_lease(job_id, lease_seconds)
    if lease_token is None:
        is_over = not BenchmarkJob.objects.filter(_unfinished(), pk=job_id).exists()
        return None if is_over else poll_seconds
    # The plan may be megabytes, and only one step needs it.
    job = BenchmarkJob.objects.defer("plan").select_related("machine__device").get(pk=job_id)
    try:
        step = Step(
            job=job,
            host=host if host is not None else _host_of(job),
            host_job=HostJob(job.pk, dict(job.host_state)),
            lease_token=lease_token,
            poll_seconds=poll_seconds,
            now=timezone.now(),
            ring=ring,
        )
        delay_seconds = _take_step(step)
    except StaleLeaseError:
        delay_seconds = 0.0
        _return_lease(job_id, lease_token, delay_seconds)
    except Exception:
        logger.exception("a step of job %s failed", job_id)
        delay_seconds = _record_failure(job, lease_token)
    else:
        _return_lease(job_id, lease_token, delay_seconds, step_failures=0)
    if job.is_final:
        return None
    if ring is not None:
        # Without the message the sweeper finds the job, so a broker that is away does no harm.
        transaction.on_commit(lambda: ring(job_id, delay_seconds), robust=True)
    return delay_seconds


def _take_step(step: Step) -> float:
    """Do what the state asks for, or what the host's refusal or silence leads to."""
    try:
        return HANDLERS[State(step.job.state)](step)
    except HostUnavailableError as error:
        logger.info("job %s waits: %s", step.job.pk, error)
        return silent(step, str(error))
    except HostFaultError as error:
        return refused(step, error)


def _host_of(job: BenchmarkJob) -> Host:
    """The job's host, or one that refuses everything for the reason that it cannot be made."""
    try:
        return host_of(job)
    except HostFaultError as error:
        return cast(Host, RefusingHost(error))


def due_job_ids(limit: int = 1000) -> list[uuid.UUID]:
    """Jobs whose next step is due and that nobody has in hand, the longest waiting first.

    One query however many there are; the sweeper calls for each of them.
    """
    return list(_waiting_for_a_step().order_by("due_at").values_list("pk", flat=True)[:limit])


def oldest_due_moment() -> datetime | None:
    """Since when the step is due that waits for a worker the longest; ``None`` if none waits."""
    oldest: datetime | None = (
        _waiting_for_a_step().filter(due_at__lte=timezone.now()).aggregate(at=Min("due_at"))["at"]
    )
    return oldest


def _waiting_for_a_step() -> QuerySet[BenchmarkJob]:
    now = timezone.now()
    return BenchmarkJob.objects.filter(_unfinished(), _free(now), _due(now))


def _unfinished() -> Q:
    return ~Q(state__in=BenchmarkJob.FINAL_STATES)


def _free(now: datetime) -> Q:
    is_held = Q(lease_expires_at__gt=now, lease_expires_at__lte=now + LONGEST_LEASE)
    return Q(lease_expires_at__isnull=True) | ~is_held


def _due(now: datetime) -> Q:
    return Q(due_at__lte=now) | Q(due_at__gt=now + LONGEST_WAIT)


def _take_lease(job_id: uuid.UUID, lease_seconds: float) -> uuid.UUID | None:
    now = timezone.now()
    token = uuid.uuid4()
    # A message that comes before its time is a second one for the same step, from a sweep: it
    # ends here, or every sweep would add one more chain of messages to a running job.
    rows = BenchmarkJob.objects.filter(_unfinished(), _free(now), _due(now), pk=job_id)
    taken = rows.update(lease_token=token, lease_expires_at=now + timedelta(seconds=lease_seconds))
    return token if taken == 1 else None


def _return_lease(
    job_id: uuid.UUID, lease_token: uuid.UUID, delay_seconds: float, **changes: Any
) -> bool:
    returned = BenchmarkJob.objects.filter(pk=job_id, lease_token=lease_token).update(
        lease_token=None,
        lease_expires_at=None,
        due_at=timezone.now() + timedelta(seconds=delay_seconds),
        **changes,
    )
    return returned == 1


def _record_failure(job: BenchmarkJob, lease_token: uuid.UUID) -> float:
    """Keep the traceback, try again later, and give up measuring after the fifth time."""
    failures = job.step_failures + 1
    delay_seconds = min(2.0**failures, LONGEST_BACK_OFF_SECONDS)
    report = traceback.format_exc()
    gives_up = failures >= FAILURES_UNTIL_CLEANING and job.state != State.CLEANING
    with transaction.atomic():
        if gives_up:
            job_transition(
                job=job,
                to=State.CLEANING,
                reason=Reason.STEP_FAILED,
                message=report,
                lease_token=lease_token,
            )
            delay_seconds = 0.0
        if not _return_lease(
            job.pk, lease_token, delay_seconds, step_failures=0 if gives_up else failures
        ):
            return delay_seconds
        if not gives_up:
            write_event(job, message=report)
    return delay_seconds
