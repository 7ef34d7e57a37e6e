"""Celery's way in: the database is the queue, and these tasks only ring the bell."""

from __future__ import annotations

import logging
import uuid

from celery import shared_task

from benchmarking.jobs.advance import advance_job, due_job_ids

logger = logging.getLogger(__name__)

# Many pages of many regions may take longer than a task may by default.
_REAP_LIMIT_SECONDS = 240

# Waits that are longer than this are left to the sweeper: fewer messages lie about.
LONGEST_COUNTDOWN_SECONDS = 15.0


@shared_task
def advance_benchmark_job(job_id: str) -> None:
    """Bring one job one step further and ring for the next."""
    advance_job(uuid.UUID(job_id), ring=ring_for_job)


@shared_task
def sweep_benchmark_jobs() -> None:
    """Ring for every job that is due: messages get lost, rows do not."""
    for job_id in due_job_ids():
        advance_benchmark_job.delay(str(job_id))


@shared_task(soft_time_limit=_REAP_LIMIT_SECONDS, time_limit=_REAP_LIMIT_SECONDS + 30)
def reap_cloud_instances() -> None:
    """End instances that nobody needs and close the books of those that are gone."""
    # Only workers need boto3, and this module is imported by all.
    from benchmarking.hosts.ec2.options import watched_regions
    from benchmarking.jobs.reaper import reap_instances

    if not watched_regions():
        return
    report = reap_instances()
    for line in (*report.ended, *report.closed):
        logger.warning("reaper: %s", line)
    for line in report.failed:
        logger.error("reaper: %s", line)


def ring_for_job(job_id: uuid.UUID, delay_seconds: float) -> None:
    """Ask a worker to take the job's next step in ``delay_seconds``."""
    if delay_seconds <= LONGEST_COUNTDOWN_SECONDS:
        advance_benchmark_job.apply_async((str(job_id),), countdown=delay_seconds)
