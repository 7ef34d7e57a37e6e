"""Many workers on one job at the same moment, on a database that lets them."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection

from benchmarking.hosts.base import HostJob, ProcessReport, ProcessStatus
from benchmarking.jobs.advance import advance_job
from benchmarking.models import BenchmarkJob, IterationTiming, JobEvent, LayerTiming
from benchmarking.tests.factories import create_architecture, create_cpu_machine, create_job
from benchmarking.tests.jobs.fake_host import FakeHost
from benchmarking.tests.probe_lines import (
    as_bytes,
    convolution_line,
    done_line,
    environment_line,
    iteration_line,
)

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

WORKERS = 8
ITERATIONS = 60


class InstantHost(FakeHost):
    """Its probe has measured everything as soon as it is started; it notes calls that overlap."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = threading.Lock()
        self.overlaps = 0

    def _enter(self, name: str) -> None:
        if not self.inside.acquire(blocking=False):
            self.overlaps += 1
        else:
            self.inside.release()
        super()._enter(name)

    def start(self, job: HostJob) -> None:
        super().start(job)
        lines: list[dict[str, Any]] = [
            iteration_line(batch_size=number + 1) for number in range(ITERATIONS)
        ]
        self.output = as_bytes(environment_line(), *lines, convolution_line(), done_line())
        self.report = ProcessReport(ProcessStatus.ENDED, 0)

    def fetch(self, job: HostJob, offset: int, maximum_bytes: int) -> bytes:
        data = super().fetch(job, offset, min(maximum_bytes, 2000))
        with self.inside:
            return bytes(data)


def test_racing_workers_do_each_step_once() -> None:
    create_architecture(slug="tinynet")
    job = create_job(
        machine=create_cpu_machine(slug="local"),
        plan={"time_budget_seconds": 60.0, "work": []},
    )
    host = InstantHost()
    begin = threading.Barrier(WORKERS)
    errors: list[BaseException] = []

    def work() -> None:
        begin.wait()
        try:
            while advance_job(job.pk, host=host, poll_seconds=0.0) is not None:
                pass
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)

    assert errors == []
    ended = BenchmarkJob.objects.get()
    assert (ended.state, ended.stored_count, ended.step_failures) == (
        "succeeded",
        ITERATIONS + 1,
        0,
    )
    assert host.starts == 1
    assert host.overlaps == 0
    assert IterationTiming.objects.count() == ITERATIONS
    assert LayerTiming.objects.count() == 1
    assert list(JobEvent.objects.values_list("new_state", flat=True)) == [
        "launching",
        "booting",
        "running",
        "collecting",
        "cleaning",
        "succeeded",
    ]
