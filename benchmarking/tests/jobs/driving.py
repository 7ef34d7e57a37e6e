"""Driving a job step by step on a host in memory, and what its probe prints."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import time_machine
from django.utils import timezone

from benchmarking.jobs.advance import advance_job
from benchmarking.jobs.creation import create_job
from benchmarking.jobs.planner import plan_measurements
from benchmarking.models import (
    Architecture,
    BenchmarkJob,
    JobEvent,
    Machine,
)
from benchmarking.probe.plan import StackRequest
from benchmarking.tests import factories
from benchmarking.tests.jobs.fake_host import FakeHost
from benchmarking.tests.probe_lines import (
    convolution_line,
    done_line,
    environment_line,
    error_line,
    iteration_line,
)

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
Travel = time_machine.Traveller

WHOLE_RUN = [
    environment_line(run_id="11111111-1111-4111-8111-111111111111"),
    iteration_line(batch_size=1),
    convolution_line(batch_size=1, samples_ms={"forward": [1.0], "backward_filter": [2.0]}),
    error_line(),
    done_line(),
]


def new_job(machine: Machine) -> BenchmarkJob:
    plan = plan_measurements(
        machine=machine,
        stack=factories.create_stack().to_spec(),
        architectures=[Architecture.objects.get(slug="tinynet")],
        batch_sizes=[1],
    )
    return create_job(machine=machine, plan=plan, stack=StackRequest(), maximum_hours=1.0)


def state_of(job: BenchmarkJob) -> str:
    return BenchmarkJob.objects.values_list("state", flat=True).get(pk=job.pk)


def reload(job: BenchmarkJob) -> BenchmarkJob:
    return BenchmarkJob.objects.get(pk=job.pk)


def advance_until(job: BenchmarkJob, host: FakeHost, clock: Travel, *states: str) -> None:
    for _ in range(60):
        if state_of(job) in states:
            return
        delay_seconds = advance_job(job.pk, host=host)
        clock.shift(delay_seconds or 0.0)
    raise AssertionError(f"the job is still {state_of(job)} instead of {states}")


def finish(job: BenchmarkJob, host: FakeHost, clock: Travel) -> BenchmarkJob:
    advance_until(job, host, clock, *BenchmarkJob.FINAL_STATES)
    return reload(job)


def last_message(job: BenchmarkJob, new_state: str) -> str:
    event = JobEvent.objects.filter(job=job, new_state=new_state).last()
    assert event is not None
    return event.message


def advance_due(job: BenchmarkJob, host: FakeHost, clock: Travel) -> None:
    due_at = reload(job).due_at
    if due_at > timezone.now():
        clock.move_to(due_at)
    advance_job(job.pk, host=host)


def finish_slowly(job: BenchmarkJob, host: FakeHost, clock: Travel) -> BenchmarkJob:
    """As ``finish``, for waits of hours."""
    for _ in range(3000):
        if reload(job).is_final:
            return reload(job)
        clock.shift(advance_job(job.pk, host=host, poll_seconds=30.0) or 0.0)
    raise AssertionError(f"the job is still {state_of(job)}")


def v100_environment(gpu: str = "Tesla V100-SXM2-16GB") -> dict[str, Any]:
    return environment_line(machine="aws-p3.2xlarge", gpu={"name": gpu})
