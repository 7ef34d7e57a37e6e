"""R4 and R21: whose turn it is, and who waits for room or for the switch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from benchmarking.jobs.advance import advance_job
from benchmarking.jobs.budget import LimitReachedError
from benchmarking.jobs.lifecycle import State, cancel_job
from benchmarking.models import (
    BenchmarkJob,
    Machine,
)
from benchmarking.tests import factories
from benchmarking.tests.jobs.driving import (
    NOON,
    Travel,
    advance_until,
    finish,
    last_message,
    reload,
    state_of,
)
from benchmarking.tests.jobs.fake_host import FakeHost

pytestmark = pytest.mark.django_db


def test_r4_a_full_installation_is_waited_for_and_the_oldest_goes_first(
    cloud_machine: Machine, host: FakeHost, clock: Travel, settings: Settings
) -> None:
    settings.BENCHMARK_INSTANCES = 2
    jobs = [
        factories.create_job(
            machine=cloud_machine,
            host_kind="ec2",
            plan={"time_budget_seconds": 60.0, "work": []},
            created_at=NOON - timedelta(minutes=number),
        )
        for number in (1, 4, 2, 3)
    ]
    hosts = {job.pk: FakeHost() for job in jobs}
    for job in jobs:
        advance_job(job.pk, host=hosts[job.pk])

    assert [state_of(job) for job in jobs] == ["queued", "launching", "queued", "launching"]
    cancel_job(jobs[3])
    finish(jobs[3], hosts[jobs[3].pk], clock)
    # Whoever leaves wakes those whose turn it may be.
    assert reload(jobs[2]).due_at <= timezone.now()
    for job in (jobs[0], jobs[2]):
        advance_job(job.pk, host=hosts[job.pk])
    assert [state_of(job) for job in jobs] == ["queued", "launching", "launching", "cancelled"]


def test_r4_room_that_comes_back_is_waited_for(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    message = "2 instances are live, as many as BENCHMARK_INSTANCES allows (2)."
    host.faults["acquire"] = LimitReachedError(message, may_wait=True)

    advance_until(cloud_job, host, clock, State.WAITING_CAPACITY)

    assert last_message(cloud_job, "waiting_capacity") == f"{message} Next try in a minute."
    host.faults.clear()
    advance_until(cloud_job, host, clock, State.BOOTING)
    assert timezone.now() - NOON <= timedelta(minutes=1)


def test_r4_a_host_that_waits_for_room_by_itself(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def acquire(host_job: Any) -> bool:
        host_job.state["waits_for"] = "a limit"
        return False

    monkeypatch.setattr(host, "acquire", acquire)
    advance_until(cloud_job, host, clock, State.WAITING_CAPACITY)

    assert last_message(cloud_job, "waiting_capacity").startswith("a limit Next try")
    assert "waits_for" not in reload(cloud_job).host_state


def test_r21_switched_off_benchmarks_stay_queued_and_say_so_once(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel, settings: Settings
) -> None:
    settings.BENCHMARKS_ENABLED = False
    for _ in range(5):
        clock.shift(advance_job(cloud_job.pk, host=host) or 0.0)

    assert state_of(cloud_job) == "queued"
    assert host.calls == []
    assert list(cloud_job.events.values_list("message", flat=True)) == [
        "BENCHMARKS_ENABLED is off: it waits until somebody switches it on."
    ]
    settings.BENCHMARKS_ENABLED = True
    advance_until(cloud_job, host, clock, State.RUNNING)


def test_r21_switched_off_benchmarks_are_still_cleaned_up(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel, settings: Settings
) -> None:
    advance_until(cloud_job, host, clock, State.RUNNING)
    settings.BENCHMARKS_ENABLED = False
    cancel_job(cloud_job)

    assert finish(cloud_job, host, clock).state == "cancelled"
    assert host.is_released


def test_jobs_on_one_remote_host_take_turns_and_on_two_they_do_not(
    cloud_machine: Machine, clock: Travel
) -> None:
    first_host, second_host = (
        factories.create_remote_host(cloud_machine),
        factories.create_remote_host(cloud_machine),
    )
    jobs = [
        factories.create_job(
            machine=cloud_machine,
            host_kind="ssh",
            remote_host=place,
            plan={"time_budget_seconds": 60.0, "work": []},
            # Of two that are as old as each other, either may go first.
            created_at=timezone.now() + timedelta(seconds=number),
        )
        for number, place in enumerate((first_host, first_host, second_host))
    ]
    hosts = [FakeHost() for _ in jobs]
    for job, place in zip(jobs, hosts):
        advance_job(job.pk, host=place)

    assert [state_of(job) for job in jobs] == ["launching", "queued", "launching"]
