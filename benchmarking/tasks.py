"""Celery's way in: the database is the queue, and these tasks only ring the bell."""

from __future__ import annotations

import uuid

from celery import shared_task

from benchmarking.jobs.advance import advance_job, due_job_ids

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


def ring_for_job(job_id: uuid.UUID, delay_seconds: float) -> None:
    """Ask a worker to take the job's next step in ``delay_seconds``."""
    if delay_seconds <= LONGEST_COUNTDOWN_SECONDS:
        advance_benchmark_job.apply_async((str(job_id),), countdown=delay_seconds)
