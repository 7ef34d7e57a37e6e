"""Workers that die or sleep at any point of a step lose, double and overwrite nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable
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
    JobEvent,
    LayerTiming,
)
from benchmarking.tests.jobs.driving import (
    WHOLE_RUN,
    Travel,
    advance_until,
    finish,
    reload,
    state_of,
)
from benchmarking.tests.jobs.fake_host import FakeHost, ProcessDeath
from benchmarking.tests.probe_lines import (
    as_bytes,
)

pytestmark = pytest.mark.django_db


CALLS = ("acquire", "is_ready", "put", "start", "poll", "fetch", "release", "stop")
POINTS = [f"{when} {call}" for call in CALLS for when in ("before", "after")]


def survive(job: BenchmarkJob, host: FakeHost, clock: Travel, act: Callable[[], None]) -> int:
    """Advance to the end, letting another worker go on after each death; count the deaths."""
    deaths = 0
    for _ in range(100):
        if reload(job).is_final:
            return deaths
        if host.is_running and not host.output:
            act()
        try:
            delay_seconds = advance_job(job.pk, host=host)
        except ProcessDeath:
            deaths += 1
            # Nobody touches the job before the dead worker's lease has run out.
            assert advance_job(job.pk, host=host) == advance.POLL_SECONDS
            delay_seconds = advance.LEASE_SECONDS
        clock.shift(delay_seconds or 0.0)
    raise AssertionError("the job does not end")


@pytest.mark.parametrize("point", [p for p in POINTS if not p.endswith("stop")])
def test_r22_death_at_any_point_loses_and_doubles_nothing(
    job: BenchmarkJob, host: FakeHost, clock: Travel, point: str
) -> None:
    host.die_at = point

    def measure() -> None:
        host.say(as_bytes(*WHOLE_RUN))
        host.end()

    assert survive(job, host, clock, measure) == 1

    ended = reload(job)
    assert (ended.state, ended.reason) == ("succeeded", "completed")
    assert (ended.stored_count, ended.failed_count) == (2, 1)
    assert LayerTiming.objects.count() == 2
    assert IterationTiming.objects.count() == 1
    assert host.starts == 1
    assert host.is_released


@pytest.mark.parametrize("point", [p for p in POINTS if p.split()[1] in ("stop", "poll", "fetch")])
def test_r22_death_while_cancelling_leaves_nothing_running(
    job: BenchmarkJob, host: FakeHost, clock: Travel, point: str
) -> None:
    advance_until(job, host, clock, State.RUNNING)
    host.say(as_bytes(*WHOLE_RUN[:2]))
    cancel_job(job)
    host.die_at = point

    assert survive(job, host, clock, lambda: None) == 1

    assert reload(job).state == "cancelled"
    assert not host.is_running
    assert IterationTiming.objects.count() == 1


def test_r22_death_between_storing_and_returning_the_lease(
    job: BenchmarkJob, host: FakeHost, clock: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance_until(job, host, clock, State.RUNNING)
    host.say(as_bytes(*WHOLE_RUN[:2]))

    def die(*args: Any, **kwargs: Any) -> bool:
        raise ProcessDeath("before the lease is returned")

    with monkeypatch.context() as patched:
        patched.setattr(advance, "_return_lease", die)
        with pytest.raises(ProcessDeath):
            advance_job(job.pk, host=host)
    assert IterationTiming.objects.count() == 1
    clock.shift(advance.LEASE_SECONDS)
    advance_job(job.pk, host=host)

    assert IterationTiming.objects.count() == 1
    assert reload(job).stored_count == 1


def test_leased_job_is_left_to_its_owner(job: BenchmarkJob, host: FakeHost) -> None:
    BenchmarkJob.objects.update(
        lease_token=uuid.uuid4(), lease_expires_at=timezone.now() + timedelta(seconds=30)
    )

    assert advance_job(job.pk, host=host) == advance.POLL_SECONDS
    assert (state_of(job), host.calls) == ("queued", [])


def test_step_that_is_not_due_yet_is_not_taken_and_rings_for_nothing(
    job: BenchmarkJob, host: FakeHost, clock: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance_until(job, host, clock, State.RUNNING)
    advance_job(job.pk, host=host)
    calls = list(host.calls)
    rung: list[float] = []
    monkeypatch.setattr("django.db.transaction.on_commit", lambda act, **options: act())

    for _ in range(3):
        advance_job(job.pk, host=host, ring=lambda job_id, delay: rung.append(delay))
    assert (host.calls, rung) == (calls, [])

    clock.shift(advance.POLL_SECONDS)
    advance_job(job.pk, host=host, ring=lambda job_id, delay: rung.append(delay))
    assert rung == [advance.POLL_SECONDS]


@pytest.mark.parametrize("state", [State.RUNNING, State.BOOTING, State.LAUNCHING])
def test_r23_worker_that_lost_its_lease_writes_nothing(
    job: BenchmarkJob, host: FakeHost, clock: Travel, state: State
) -> None:
    """R23: it sleeps past its lease in the middle of a step, another finishes, it wakes up."""
    advance_until(job, host, clock, state)
    host.say(as_bytes(*WHOLE_RUN))
    call = {"running": "fetch", "booting": "start", "launching": "acquire"}[state]
    original = getattr(host, call)
    is_first = [True]

    def sleeping(*args: Any) -> Any:
        result = original(*args)
        if is_first.pop() if is_first else False:
            clock.shift(advance.LEASE_SECONDS + 1)
            host.end()
            finish(job, host, clock)
        return result

    setattr(host, call, sleeping)
    events_before = JobEvent.objects.count()
    advance_job(job.pk, host=host)

    ended = reload(job)
    assert (ended.state, ended.stored_count) == ("succeeded", 2)
    assert IterationTiming.objects.count() == 1
    assert JobEvent.objects.filter(new_state="succeeded").count() == 1
    assert JobEvent.objects.count() > events_before
    assert JobEvent.objects.last().new_state == "succeeded"


def test_finished_job_is_left_alone(job: BenchmarkJob, host: FakeHost) -> None:
    BenchmarkJob.objects.update(state=State.SUCCEEDED)

    assert advance_job(job.pk, host=host) is None
    assert host.calls == []


def test_unknown_job_is_over(host: FakeHost) -> None:
    assert advance_job(uuid.uuid4(), host=host) is None
