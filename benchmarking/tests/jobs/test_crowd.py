"""R4: a thousand jobs and twenty workers: no limit is passed, and no job is starved."""

from __future__ import annotations

import threading
import time
import uuid
from datetime import timedelta
from decimal import Decimal
from queue import Empty, Queue

import pytest
from django.db import connection, transaction
from django.utils import timezone
from pytest_django import Settings

from benchmarking.hosts.base import HostJob
from benchmarking.jobs.advance import advance_job, due_job_ids
from benchmarking.jobs.budget import reserve, settle, spending
from benchmarking.models import BenchmarkJob, CloudInstance
from benchmarking.tests import factories
from benchmarking.tests.jobs.fake_host import FakeHost

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

JOBS = 1000
WORKERS = 20
INSTANCES = 40
# Those far behind in the line look every two minutes then, and not all the time.
POLL_SECONDS = 2.0
LONGEST_SECONDS = 1800.0


def create_jobs() -> list[uuid.UUID]:
    device = factories.create_device(reported_name="Tesla V100*")
    machine = factories.create_machine(slug="aws-p3.2xlarge", device=device)
    now = timezone.now()
    jobs = BenchmarkJob.objects.bulk_create(
        BenchmarkJob(
            machine=machine,
            host_kind="ec2",
            plan={"time_budget_seconds": 60.0, "work": []},
            planned_count=0,
            expected_seconds=1.0,
            maximum_usd=Decimal(2),
            created_at=now + timedelta(milliseconds=number),
            deadline=now + timedelta(days=7),
        )
        for number in range(JOBS)
    )
    return [job.pk for job in jobs]


def test_r4_a_thousand_jobs_and_twenty_workers(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.BENCHMARK_INSTANCES = INSTANCES
    settings.BENCHMARK_INSTANCES_PER_REGION = INSTANCES
    settings.BENCHMARK_USD_PER_HOUR = Decimal(1000)
    settings.BENCHMARK_USD_PER_MONTH = Decimal(100_000)
    ids = create_jobs()
    books = Books()
    bells: Queue[uuid.UUID] = Queue()
    queued: set[uuid.UUID] = set()
    is_over = threading.Event()
    monkeypatch.setattr("benchmarking.jobs.advance.host_of", lambda job: QuickHost(job, books))
    errors: list[BaseException] = []
    steps = 0

    def ring(job_id: uuid.UUID, delay_seconds: float) -> None:
        if delay_seconds == 0.0 and job_id not in queued:
            queued.add(job_id)
            bells.put(job_id)

    def work() -> None:
        nonlocal steps
        try:
            while not is_over.is_set():
                try:
                    job_id = bells.get(timeout=0.1)
                except Empty:
                    continue
                queued.discard(job_id)
                advance_job(job_id, ring=ring, poll_seconds=POLL_SECONDS)
                steps += 1
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(WORKERS)]
    began, was_busy = time.monotonic(), time.process_time()
    for thread in threads:
        thread.start()
    unfinished = BenchmarkJob.objects.exclude(state__in=BenchmarkJob.FINAL_STATES)
    most_by_the_books = 0
    try:
        while not errors and unfinished.exists():
            assert time.monotonic() - began < LONGEST_SECONDS
            for job_id in due_job_ids():
                ring(job_id, 0.0)
            most_by_the_books = max(most_by_the_books, spending().live_instances)
            time.sleep(0.25)
    finally:
        is_over.set()
        for thread in threads:
            thread.join(timeout=30)
    seconds = time.monotonic() - began
    busy_seconds = time.process_time() - was_busy

    assert errors == []
    print(
        f"{JOBS} jobs, {WORKERS} workers, {INSTANCES} instances at most: {steps} steps in "
        f"{seconds:.0f} s, {busy_seconds:.0f} of them busy; {books.launches} launches, at most "
        f"{books.most_live} live at once"
    )
    ended = BenchmarkJob.objects.values_list("state", "reason").distinct().order_by()
    assert list(ended) == [("failed", "probe_refused")]
    assert (books.launches, len(books.live)) == (JOBS, 0)
    assert 0 < books.most_live <= INSTANCES
    assert most_by_the_books <= INSTANCES
    assert CloudInstance.objects.filter(state="terminated", cost_usd__gt=0).count() == JOBS
    assert spending().reserved_usd == 0
    # The oldest go first: nobody is overtaken by more than those that are at work anyway.
    order = {job_id: place for place, job_id in enumerate(ids)}
    started = BenchmarkJob.objects.order_by("started_at").values_list("pk", flat=True)
    overtaken = max(place - order[job_id] for place, job_id in enumerate(started))
    assert overtaken <= INSTANCES + WORKERS


class Books:
    """Who has a machine just now."""

    def __init__(self) -> None:
        self.live: set[uuid.UUID] = set()
        self.launches = 0
        self.most_live = 0
        self._lock = threading.Lock()

    def open(self, job_id: uuid.UUID) -> None:
        """Count a machine that is paid for from now on."""
        with self._lock:
            self.live.add(job_id)
            self.launches += 1
            self.most_live = max(self.most_live, len(self.live))

    def close(self, job_id: uuid.UUID) -> None:
        """Count it no more."""
        with self._lock:
            self.live.discard(job_id)


class QuickHost(FakeHost):
    """A machine in the cloud whose probe refuses at once: the queue is the work."""

    def __init__(self, job: BenchmarkJob, books: Books) -> None:
        super().__init__()
        self.job = job
        self.books = books
        self.end(2, "probe: nothing to do")

    def acquire(self, job: HostJob) -> bool:
        with transaction.atomic():
            reserved_usd = reserve(
                self.job, region="us-east-1", usd_per_hour=Decimal(1), hours=Decimal(1)
            )
            factories.create_instance(job=self.job, reserved_usd=reserved_usd)
        self.books.open(job.id)
        return True

    def release(self, job: HostJob) -> bool:
        row = CloudInstance.objects.get(job=self.job, state="running")
        self.books.close(job.id)
        row.terminated_at = timezone.now()
        CloudInstance.objects.filter(pk=row.pk).update(
            state="terminated", terminated_at=row.terminated_at
        )
        settle(row)
        return True
