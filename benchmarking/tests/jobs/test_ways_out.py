"""Cancelled, past its deadline, or waiting for its turn: a job leaves nothing running."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from benchmarking.jobs import advance
from benchmarking.jobs.advance import advance_job
from benchmarking.jobs.lifecycle import State, cancel_job
from benchmarking.models import (
    BenchmarkJob,
    IterationTiming,
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
from benchmarking.tests.jobs.fake_host import FakeHost, ProcessDeath
from benchmarking.tests.probe_lines import (
    as_bytes,
)

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "state", [State.QUEUED, State.LAUNCHING, State.BOOTING, State.RUNNING, State.COLLECTING]
)
def test_cancelled_job_keeps_its_timings_and_leaves_nothing_running(
    job: BenchmarkJob, host: FakeHost, clock: Travel, state: State
) -> None:
    if state == State.COLLECTING:
        advance_until(job, host, clock, State.RUNNING)
        host.end()
    advance_until(job, host, clock, state)
    if state in (State.RUNNING, State.COLLECTING):
        host.say(as_bytes(*WHOLE_RUN[:3]))

    assert cancel_job(job)
    ended = finish(job, host, clock)

    assert (ended.state, ended.reason) == ("cancelled", "cancelled")
    assert host.is_released
    assert not host.is_running
    assert IterationTiming.objects.count() == (state in (State.RUNNING, State.COLLECTING))


def test_probe_that_does_not_stop_is_ended_by_force(
    job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    host.obeys_stop = False
    advance_until(job, host, clock, State.RUNNING)
    cancel_job(job)

    ended = finish(job, host, clock)

    assert ended.state == "cancelled"
    assert host.stops == [False, True]
    assert timezone.now() - NOON < timedelta(minutes=1)


def test_cancel_during_a_step_wins(
    job: BenchmarkJob, host: FakeHost, clock: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance_until(job, host, clock, State.BOOTING)
    start = host.start

    def cancelled_meanwhile(host_job: Any) -> None:
        start(host_job)
        cancel_job(reload(job))

    monkeypatch.setattr(host, "start", cancelled_meanwhile)
    advance_job(job.pk, host=host)

    assert state_of(job) == "cleaning"
    assert finish(job, host, clock).state == "cancelled"
    assert not host.is_running


def test_deadline_ends_a_running_job(job: BenchmarkJob, host: FakeHost, clock: Travel) -> None:
    advance_until(job, host, clock, State.RUNNING)
    assert reload(job).deadline == NOON + timedelta(hours=1, minutes=15)
    host.say(as_bytes(*WHOLE_RUN[:2]))
    clock.move_to(NOON + timedelta(hours=2))

    ended = finish(job, host, clock)

    assert (ended.state, ended.reason, ended.stored_count) == ("failed", "deadline", 1)
    assert not host.is_running


def test_deadline_does_not_move_when_a_worker_restarts(
    job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    advance_until(job, host, clock, State.RUNNING)
    deadline = reload(job).deadline
    host.die_at = "before poll"
    with pytest.raises(ProcessDeath):
        advance_job(job.pk, host=host)
    clock.shift(advance.LEASE_SECONDS)
    advance_job(job.pk, host=host)

    assert reload(job).deadline == deadline


@pytest.mark.parametrize("state", [State.QUEUED, State.LAUNCHING])
def test_deadline_ends_a_job_that_never_got_anywhere(
    job: BenchmarkJob, host: FakeHost, clock: Travel, state: State
) -> None:
    host.is_acquirable = False
    advance_until(job, host, clock, state)
    clock.move_to(reload(job).deadline + timedelta(seconds=1))

    ended = finish(job, host, clock)

    assert (ended.state, ended.reason) == ("failed", "deadline")
    assert host.starts == 0


def test_probe_that_never_starts_is_given_up(
    job: BenchmarkJob, host: FakeHost, clock: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "start", lambda host_job: None)
    advance_until(job, host, clock, State.RUNNING)

    ended = finish(job, host, clock)

    assert (ended.state, ended.reason) == ("failed", "probe_died")
    assert last_message(job, "cleaning") == "The probe did not start."


def test_local_jobs_take_turns(machine: Machine, host: FakeHost, clock: Travel) -> None:
    first = new_job(machine)
    # Of two that are as old as each other, either may go first.
    later = first.created_at + timedelta(seconds=1)
    second = factories.create_job(machine=machine, created_at=later)
    advance_until(first, host, clock, State.RUNNING)

    delay_seconds = advance_job(second.pk, host=host)
    assert (state_of(second), delay_seconds) == ("queued", 3 * advance.POLL_SECONDS)

    cancel_job(first)
    advance_job(second.pk, host=host)
    assert state_of(second) == "queued"
    finish(first, host, clock)
    second.plan["time_budget_seconds"] = 60
    second.save()
    clock.shift(60)
    advance_job(second.pk, host=host)
    assert state_of(second) == "launching"


def test_of_two_jobs_whose_turn_comes_at_once_one_waits(
    machine: Machine, host: FakeHost, clock: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = new_job(machine)
    second = factories.create_job(machine=machine, plan=first.plan)
    monkeypatch.setattr("benchmarking.jobs.steps.jobs_before", lambda job: 0)

    advance_job(first.pk, host=host)
    advance_job(second.pk, host=host)

    assert (state_of(first), state_of(second)) == ("launching", "queued")
    assert reload(second).step_failures == 0
