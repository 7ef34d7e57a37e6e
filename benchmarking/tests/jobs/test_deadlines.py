"""R10, R13 and R17: each wait has its deadline, and what fails holds no machine."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from benchmarking.hosts.base import HostFault, HostFaultError
from benchmarking.jobs.advance import advance_job, due_job_ids
from benchmarking.jobs.lifecycle import State, cancel_job
from benchmarking.models import (
    BenchmarkJob,
    IterationTiming,
)
from benchmarking.tests.jobs.driving import (
    NOON,
    Travel,
    advance_due,
    advance_until,
    finish,
    finish_slowly,
    last_message,
    reload,
    state_of,
    v100_environment,
)
from benchmarking.tests.jobs.fake_host import FakeHost
from benchmarking.tests.probe_lines import as_bytes, done_line, iteration_line

pytestmark = pytest.mark.django_db


# R10: each wait has its deadline --------------------------------------------------------------


def test_r10_launch_that_comes_to_nothing(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    host.is_acquirable = False

    ended = finish_slowly(cloud_job, host, clock)

    assert ended.reason == "launch_timeout"
    assert ended.ended_at - NOON == pytest.approx(timedelta(minutes=15), abs=timedelta(minutes=1))


@pytest.mark.parametrize("is_away", [True, False])
def test_r10_machine_that_does_not_boot(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel, monkeypatch: Any, is_away: bool
) -> None:
    advance_until(cloud_job, host, clock, State.BOOTING)
    monkeypatch.setattr(host, "is_ready", lambda host_job: False)
    host.is_away = is_away
    monkeypatch.setattr(host, "release", lambda host_job: True)

    ended = finish_slowly(cloud_job, host, clock)

    assert ended.reason == "boot_timeout"
    assert ended.ended_at - NOON < timedelta(minutes=22)


def test_r10_probe_that_says_nothing_at_all(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    ended = finish_slowly(cloud_job, host, clock)

    assert ended.reason == "setup_failed"
    assert last_message(cloud_job, "cleaning") == (
        "The probe was started and has not printed a single line."
    )
    assert ended.ended_at - NOON == pytest.approx(timedelta(minutes=10), abs=timedelta(minutes=1))


def test_r10_probe_that_prints_nothing_any_more(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    advance_until(cloud_job, host, clock, State.RUNNING)
    host.say(as_bytes(v100_environment()))
    for number in range(3):
        clock.shift(timedelta(minutes=14))
        host.say(as_bytes(iteration_line(batch_size=number + 1)))
        advance_job(cloud_job.pk, host=host)
        assert state_of(cloud_job) == "running"
    last_line_at = timezone.now()

    ended = finish_slowly(cloud_job, host, clock)

    assert (ended.reason, ended.stored_count) == ("no_progress", 3)
    assert last_message(cloud_job, "cleaning") == (
        "The probe prints nothing any more after tinynet x 3."
    )
    assert ended.ended_at - last_line_at == pytest.approx(
        timedelta(minutes=15), abs=timedelta(minutes=1)
    )


def test_r10_losing_the_connection_is_not_losing_the_run(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    advance_until(cloud_job, host, clock, State.RUNNING)
    host.is_away = True
    for _ in range(3):
        clock.shift(timedelta(minutes=20))
        advance_job(cloud_job.pk, host=host)
    assert state_of(cloud_job) == "running"
    host.is_away = False
    host.say(as_bytes(v100_environment(), iteration_line(batch_size=1)))
    advance_due(cloud_job, host, clock)

    assert (state_of(cloud_job), reload(cloud_job).stored_count) == ("running", 1)


def test_r10_host_that_stays_away_ends_with_the_job(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance_until(cloud_job, host, clock, State.RUNNING)
    host.is_away = True
    monkeypatch.setattr(host, "release", lambda host_job: True)

    ended = finish_slowly(cloud_job, host, clock)

    assert ended.reason == "deadline"
    assert ended.ended_at - NOON < timedelta(minutes=100)


def test_r10_no_restart_extends_a_deadline(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    advance_until(cloud_job, host, clock, State.RUNNING)
    before = reload(cloud_job)
    for _ in range(4):
        clock.shift(timedelta(minutes=1))
        advance_job(cloud_job.pk, host=host)

    assert reload(cloud_job).state_deadline == before.state_deadline == NOON + timedelta(minutes=10)
    assert reload(cloud_job).deadline == before.deadline


# R13: collection before termination, and not for ever ------------------------------------------


def test_r13_what_was_measured_is_collected_before_the_machine_ends(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    advance_until(cloud_job, host, clock, State.RUNNING)
    cancel_job(cloud_job)
    host.say(as_bytes(v100_environment(), iteration_line(batch_size=1)))

    ended = finish(cloud_job, host, clock)

    assert ended.stored_count == IterationTiming.objects.count() == 1
    assert host.calls.index("fetch") < host.calls.index("release")


@pytest.mark.parametrize("trouble", ["away", "fault", "error"])
def test_r13_failing_collection_holds_no_machine_past_its_deadline(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel, monkeypatch: Any, trouble: str
) -> None:
    advance_until(cloud_job, host, clock, State.RUNNING)
    cancel_job(cloud_job)
    host.is_away = trouble == "away"
    if trouble == "fault":
        host.faults["poll"] = HostFaultError(HostFault.SETUP, "no shell")
    if trouble == "error":
        host.failures = 1000
    monkeypatch.setattr(host, "release", lambda host_job: True)
    began = timezone.now()

    ended = finish_slowly(cloud_job, host, clock)

    assert ended.state == "cancelled"
    assert ended.ended_at - began < timedelta(minutes=11 if trouble == "error" else 7)
    left_behind = cloud_job.events.filter(message__startswith="Not everything was stored: ")
    assert left_behind.count() == 1


def test_r13_probe_that_prints_without_end_holds_no_machine(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    advance_until(cloud_job, host, clock, State.RUNNING)
    host.say(as_bytes(v100_environment()))
    advance_due(cloud_job, host, clock)
    cancel_job(cloud_job)
    host.end(0)
    for number in range(100):
        if reload(cloud_job).is_final:
            break
        host.say(as_bytes(iteration_line(batch_size=number + 1)))
        advance_job(cloud_job.pk, host=host)
        clock.shift(10)

    assert state_of(cloud_job) == "cancelled"
    assert timezone.now() - NOON < timedelta(minutes=7)


def test_r17_release_is_tried_for_ever(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    advance_until(cloud_job, host, clock, State.RUNNING)
    cancel_job(cloud_job)
    host.is_away = True
    for _ in range(300):
        clock.shift(advance_job(cloud_job.pk, host=host) or 0.0)
    assert state_of(cloud_job) == "cleaning"
    assert timezone.now() - NOON > timedelta(hours=2)
    told = cloud_job.events.filter(message="The host is not given back yet: nobody answers")
    assert told.count() == 1

    host.is_away = False
    host.end(None)
    assert finish(cloud_job, host, clock).state == "cancelled"


# A clock that jumps ----------------------------------------------------------------------------


@pytest.mark.parametrize("state", [State.QUEUED, State.BOOTING, State.RUNNING, State.CLEANING])
def test_clock_that_goes_back_by_hours_holds_nothing_up(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel, state: State
) -> None:
    advance_until(cloud_job, host, clock, State.RUNNING if state == State.CLEANING else state)
    if state == State.CLEANING:
        cancel_job(cloud_job)
    BenchmarkJob.objects.update(
        lease_token="11111111-1111-4111-8111-111111111111",
        lease_expires_at=timezone.now() + timedelta(seconds=60),
    )
    clock.shift(timedelta(hours=-5))

    assert due_job_ids() == [cloud_job.pk]
    advance_job(cloud_job.pk, host=host)
    assert reload(cloud_job).lease_token is None
    host.say(as_bytes(v100_environment(), iteration_line(batch_size=1)))
    host.end(1)
    assert finish(cloud_job, host, clock).is_final


def test_clock_that_leaps_ends_nothing_that_has_come_to_its_end_meanwhile(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    advance_until(cloud_job, host, clock, State.RUNNING)
    host.say(as_bytes(v100_environment(), iteration_line(batch_size=1), done_line()))
    host.end(0)
    clock.shift(timedelta(days=2))

    assert finish(cloud_job, host, clock).reason == "completed"


def test_clock_that_leaps_by_less_than_the_jobs_time_ends_no_probe_that_goes_on(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    advance_until(cloud_job, host, clock, State.RUNNING)
    host.say(as_bytes(v100_environment(), iteration_line(batch_size=1)))
    clock.shift(timedelta(minutes=50))
    advance_due(cloud_job, host, clock)

    assert state_of(cloud_job) == "running"


def test_remote_host_that_is_gone_is_given_up_after_the_deadline(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    """It costs nothing, and whoever it belongs to is told."""
    BenchmarkJob.objects.update(host_kind="ssh")
    advance_until(cloud_job, host, clock, State.RUNNING)
    host.is_away = True

    ended = finish_slowly(cloud_job, host, clock)

    assert ended.reason == "deadline"
    assert cloud_job.events.filter(
        message__contains="see whether anything still runs there"
    ).exists()


def test_remote_host_whose_key_cannot_be_read_ends_the_job(
    cloud_job: BenchmarkJob, clock: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    BenchmarkJob.objects.update(host_kind="ssh")

    def refuse(job: BenchmarkJob) -> None:
        raise HostFaultError(HostFault.CONFIGURATION, "none of the keys decrypts it")

    monkeypatch.setattr("benchmarking.jobs.advance.host_of", refuse)
    while (delay_seconds := advance_job(cloud_job.pk)) is not None:
        clock.shift(delay_seconds)

    ended = reload(cloud_job)
    assert (ended.state, ended.reason) == ("failed", "configuration")
    assert last_message(cloud_job, "cleaning") == "none of the keys decrypts it"
