"""Celery's way in: the database is the queue, and these tasks only ring the bell."""

from __future__ import annotations

import logging
import uuid

from celery import shared_task

from benchmarking.jobs.advance import advance_job, due_job_ids
from benchmarking.jobs.automatic import launch_automatic_job
from benchmarking.jobs.budget import settle_open_books
from benchmarking.jobs.demand import store_requests
from benchmarking.jobs.metrics import beat
from benchmarking.jobs.secrets import erase_leftover_secrets

logger = logging.getLogger(__name__)

# Waits that are longer than this are left to the sweeper: fewer messages lie about.
LONGEST_COUNTDOWN_SECONDS = 15.0
# Several calls for each region that may hold instances.
REAP_SECONDS = 240


@shared_task
def advance_benchmark_job(job_id: str) -> None:
    """Bring one job one step further and ring for the next."""
    advance_job(uuid.UUID(job_id), ring=ring_for_job)


@shared_task
def sweep_benchmark_jobs() -> None:
    """Ring for every job that is due: messages get lost, rows do not."""
    beat()
    for job_id in due_job_ids():
        advance_benchmark_job.delay(str(job_id))


@shared_task(soft_time_limit=REAP_SECONDS, time_limit=REAP_SECONDS + 30)
def reap_cloud_instances() -> None:
    """End instances that nobody needs, close the books of those that are gone, erase old keys."""
    # Loads boto3, for which the other tasks have no use.
    from benchmarking.jobs.reaper import reap_instances

    settle_open_books()
    erase_leftover_secrets()
    report = reap_instances()
    for line in (*report.ended, *report.failed):
        logger.warning("reaper: %s", line)
    for line in report.closed:
        logger.info("reaper: %s", line)


@shared_task
def collect_requests(counts: list[tuple[str, str, int]]) -> None:
    """Store what a web process has counted: machine, CNN and how many asked for them."""
    store_requests(counts)


@shared_task
def launch_automatic_benchmark() -> None:
    """Measure what people ask for, where that is switched on."""
    launch_automatic_job(ring_for_job)


def ring_for_job(job_id: uuid.UUID, delay_seconds: float) -> None:
    """Ask a worker to take the job's next step in ``delay_seconds``."""
    if delay_seconds <= LONGEST_COUNTDOWN_SECONDS:
        advance_benchmark_job.apply_async((str(job_id),), countdown=delay_seconds)
