"""What operators do to a job that is there, on its page or through the API, and who of them may."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from benchmarking.jobs.lifecycle import cancel_job
from benchmarking.jobs.quote import JobRefusedError
from benchmarking.jobs.retry import retry_job
from benchmarking.models import BenchmarkJob
from benchmarking.tasks import ring_for_job

MAY_START = "benchmarking.add_benchmarkjob"
MAY_CANCEL = "benchmarking.change_benchmarkjob"


def end_job(job: BenchmarkJob, *, message: str) -> None:
    """Cancel ``job`` and wake a worker for it; one that has ended stays as it is."""
    with transaction.atomic():
        if cancel_job(job, message=message):
            transaction.on_commit(lambda: ring_for_job(job.pk, 0.0), robust=True)


def retry_once(job: BenchmarkJob, *, user: User) -> tuple[BenchmarkJob, bool]:
    """The job that goes on with ``job``, and whether it was made just now.

    Raises ``JobRefusedError`` where nothing can go on with it.
    """
    try:
        return retry_job(job, user=user, ring=ring_for_job), True
    except JobRefusedError:
        # The second of two clicks finds what the first has made.
        successor = BenchmarkJob.objects.defer("plan").filter(retry_of=job).first()
        if successor is None:
            raise
        return successor, False
