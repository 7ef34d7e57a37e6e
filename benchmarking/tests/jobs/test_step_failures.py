"""Steps that raise, and hosts that do not answer."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from benchmarking.jobs.advance import advance_job, due_job_ids
from benchmarking.jobs.lifecycle import State, cancel_job
from benchmarking.models import (
    BenchmarkJob,
    JobEvent,
    Machine,
)
from benchmarking.tests import factories
from benchmarking.tests.jobs.driving import (
    NOON,
    WHOLE_RUN,
    Travel,
    advance_until,
    finish,
    last_message,
    new_job,
    reload,
    state_of,
)
from benchmarking.tests.jobs.fake_host import FakeHost
from benchmarking.tests.probe_lines import (
    as_bytes,
)

pytestmark = pytest.mark.django_db


def test_step_that_fails_once_is_tried_again(
    job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    host.failures = 1
    advance_until(job, host, clock, State.LAUNCHING)

    advance_job(job.pk, host=host)
    assert reload(job).step_failures == 1
    assert "RuntimeError: acquire went wrong" in JobEvent.objects.last().message

    clock.shift(10)
    advance_job(job.pk, host=host)
    assert (state_of(job), reload(job).step_failures) == ("booting", 0)


def test_r24_step_that_fails_five_times_in_a_row_is_cleaned_up_with_its_traceback(
    machine: Machine, job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    advance_until(job, host, clock, State.RUNNING)
    host.say(as_bytes(*WHOLE_RUN[:2]))
    host.failures = 5

    ended = finish(job, host, clock)

    assert (ended.state, ended.reason) == ("failed", "step_failed")
    assert "Traceback" in last_message(job, "cleaning")
    assert "RuntimeError: poll went wrong" in last_message(job, "cleaning")
    assert ended.stored_count == 1
    assert not host.is_running


def test_cleaning_is_tried_for_ever(job: BenchmarkJob, host: FakeHost, clock: Travel) -> None:
    advance_until(job, host, clock, State.RUNNING)
    cancel_job(job)
    host.failures = 12
    for _ in range(12):
        clock.shift(advance_job(job.pk, host=host) or 0.0)
    assert state_of(job) == "cleaning"
    assert timezone.now() - NOON > timedelta(minutes=30)

    assert finish(job, host, clock).state == "cancelled"


def test_r24_one_poisoned_job_does_not_hold_up_the_others(machine: Machine, clock: Travel) -> None:
    poisoned = factories.create_job(machine=machine, host_kind="ec2")
    healthy = new_job(machine)
    for _ in range(3):
        for job_id in due_job_ids():
            advance_job(job_id, host=None if job_id == poisoned.pk else FakeHost())
        clock.shift(30)

    assert state_of(healthy) == "running"
    assert reload(poisoned).step_failures == 3


def test_host_that_does_not_answer_is_no_failure(
    job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    advance_until(job, host, clock, State.RUNNING)
    host.is_away = True
    for _ in range(10):
        clock.shift(advance_job(job.pk, host=host) or 0.0)

    assert (state_of(job), reload(job).step_failures) == ("running", 0)
    host.is_away = False
    host.say(as_bytes(*WHOLE_RUN))
    host.end()
    assert finish(job, host, clock).state == "succeeded"


@pytest.mark.parametrize("state", [State.RUNNING, State.CLEANING])
def test_computer_that_never_comes_back_is_given_up_after_the_deadline(
    job: BenchmarkJob, host: FakeHost, clock: Travel, state: State
) -> None:
    advance_until(job, host, clock, State.RUNNING)
    if state == State.CLEANING:
        cancel_job(job)
    host.is_away = True
    clock.move_to(NOON + timedelta(hours=2))

    ended = finish(job, host, clock)

    assert timezone.now() - NOON < timedelta(hours=2, minutes=10)
    assert ended.reason == ("cancelled" if state == State.CLEANING else "deadline")
