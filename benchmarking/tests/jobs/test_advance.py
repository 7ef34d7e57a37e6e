"""Jobs step by step on a host in memory: the way through, every way out, and every death."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone
from pytest_django.fixtures import DjangoAssertNumQueries

from benchmarking.jobs import advance
from benchmarking.jobs.advance import advance_job, due_job_ids
from benchmarking.jobs.creation import create_job
from benchmarking.jobs.lifecycle import State, cancel_job
from benchmarking.jobs.planner import plan_measurements
from benchmarking.models import (
    Architecture,
    BenchmarkJob,
    FailedTiming,
    IterationTiming,
    JobEvent,
    LayerTiming,
    Machine,
    MeasurementRun,
)
from benchmarking.probe import PROBE_PATH
from benchmarking.probe.plan import StackRequest
from benchmarking.tests import factories
from benchmarking.tests.jobs.fake_host import FakeHost, ProcessDeath
from benchmarking.tests.probe_lines import (
    as_bytes,
    convolution_line,
    done_line,
    environment_line,
    error_line,
    iteration_line,
)

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
Travel = time_machine.Traveller

WHOLE_RUN = [
    environment_line(run_id="11111111-1111-4111-8111-111111111111"),
    iteration_line(batch_size=1),
    convolution_line(batch_size=1, samples_ms={"forward": [1.0], "backward_filter": [2.0]}),
    error_line(),
    done_line(),
]


@pytest.fixture
def clock() -> Iterator[Travel]:
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def machine() -> Machine:
    factories.create_architecture(slug="tinynet")
    return factories.create_cpu_machine(slug="local")


@pytest.fixture
def job(machine: Machine, clock: Travel) -> BenchmarkJob:
    return new_job(machine)


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


def test_job_measures_stores_and_succeeds(job: BenchmarkJob, host: FakeHost, clock: Travel) -> None:
    advance_until(job, host, clock, State.RUNNING)
    assert json.loads(host.files["plan.json"]) == job.plan
    assert host.files["probe.py"] == PROBE_PATH.read_bytes()
    host.say(as_bytes(*WHOLE_RUN))
    host.end()

    ended = finish(job, host, clock)

    assert (ended.state, ended.reason) == ("succeeded", "completed")
    assert (ended.stored_count, ended.failed_count) == (2, 1)
    assert ended.ingested_bytes == len(host.output)
    assert ended.current_work == f"{factories.MIDDLE_LAYER.key} x 1"
    assert (ended.started_at, ended.lease_token) == (NOON, None)
    run = MeasurementRun.objects.get()
    assert (run.job, run.machine, run.completion) == (ended, ended.machine, done_line())
    assert LayerTiming.objects.count() == 2
    assert IterationTiming.objects.count() == 1
    assert FailedTiming.objects.count() == 1
    assert host.is_released
    assert list(JobEvent.objects.values_list("new_state", flat=True)) == [
        "queued",
        "launching",
        "booting",
        "running",
        "collecting",
        "cleaning",
        "succeeded",
    ]


def test_timings_are_stored_while_the_probe_still_runs(
    job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    advance_until(job, host, clock, State.RUNNING)
    host.say(as_bytes(*WHOLE_RUN[:2])[:-10])
    clock.shift(advance_job(job.pk, host=host) or 0.0)
    assert IterationTiming.objects.count() == 0

    host.say(as_bytes(*WHOLE_RUN[:2])[-10:])
    delay_seconds = advance_job(job.pk, host=host)

    assert IterationTiming.objects.count() == 1
    assert (reload(job).state, reload(job).stored_count) == ("running", 1)
    assert delay_seconds == advance.POLL_SECONDS


def test_output_is_stored_in_bounded_pieces(
    job: BenchmarkJob, host: FakeHost, clock: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarking.jobs.collection.FETCH_BYTES", 1200)
    advance_until(job, host, clock, State.RUNNING)
    lines = [iteration_line(batch_size=size + 1) for size in range(20)]
    host.say(as_bytes(WHOLE_RUN[0], *lines, done_line()))
    host.end()

    assert finish(job, host, clock).stored_count == 20
    assert IterationTiming.objects.count() == 20


@pytest.mark.parametrize(
    ("stopped_by", "state", "reason"),
    [
        ("end_of_plan", "succeeded", "completed"),
        ("time_budget", "succeeded", "time_budget"),
        ("signal", "failed", "probe_stopped"),
        ("fatal_error", "failed", "device_broken"),
    ],
)
def test_end_of_the_run_decides_how_the_job_ends(
    job: BenchmarkJob, host: FakeHost, clock: Travel, stopped_by: str, state: str, reason: str
) -> None:
    advance_until(job, host, clock, State.RUNNING)
    host.say(as_bytes(WHOLE_RUN[0], done_line(stopped_by=stopped_by)))
    host.end()

    ended = finish(job, host, clock)

    assert (ended.state, ended.reason) == (state, reason)


@pytest.mark.parametrize(
    ("exit_code", "errors", "reason", "message"),
    [
        (
            2,
            "probe: torch is not installed for this Python",
            "probe_refused",
            "torch is not installed for this Python",
        ),
        (137, "", "probe_died", "The probe was killed by signal 9."),
        (1, "Traceback\nOSError: disk full", "probe_died", "The probe left with 1. OSError: disk"),
        (None, "", "probe_died", "The probe ended without an exit code."),
    ],
)
def test_probe_that_ends_early_fails_the_job_and_keeps_its_timings(
    job: BenchmarkJob,
    host: FakeHost,
    clock: Travel,
    exit_code: int | None,
    errors: str,
    reason: str,
    message: str,
) -> None:
    advance_until(job, host, clock, State.RUNNING)
    host.say(as_bytes(*WHOLE_RUN[:3]) + b'{"type": "itera')
    host.end(exit_code, errors)

    ended = finish(job, host, clock)

    assert (ended.state, ended.reason, ended.stored_count) == ("failed", reason, 2)
    assert last_message(job, "cleaning").startswith(message)


@pytest.mark.parametrize(
    ("garbage", "message"),
    [
        (b"Segmentation fault\n", "line 3: is not a JSON object"),
        (as_bytes(iteration_line(samples_ms=[-1.0])), "line 3: samples_ms holds -1.0"),
        (b"x" * 2_000_000, "line 3: is longer than 1,000,000 bytes"),
        (as_bytes(iteration_line(architecture="other")), "line 3: unknown architecture 'other'"),
        (as_bytes(environment_line()), "line 3: begins a second run"),
    ],
)
def test_garbage_ends_the_job_and_what_came_before_is_kept(
    job: BenchmarkJob, host: FakeHost, clock: Travel, garbage: bytes, message: str
) -> None:
    advance_until(job, host, clock, State.RUNNING)
    host.say(as_bytes(*WHOLE_RUN[:2]))
    advance_job(job.pk, host=host)
    host.say(garbage)

    ended = finish(job, host, clock)

    assert (ended.state, ended.reason) == ("failed", "bad_output")
    assert last_message(job, "cleaning").startswith(message)
    assert IterationTiming.objects.count() == 1
    assert host.is_released


def test_good_lines_before_garbage_in_one_piece_are_kept(
    job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    advance_until(job, host, clock, State.RUNNING)
    host.say(as_bytes(*WHOLE_RUN[:2]) + b"garbage\n" + as_bytes(WHOLE_RUN[2]))

    ended = finish(job, host, clock)

    assert (ended.reason, ended.stored_count) == ("bad_output", 1)
    assert (IterationTiming.objects.count(), LayerTiming.objects.count()) == (1, 0)


def test_output_without_an_environment_is_garbage(
    job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    advance_until(job, host, clock, State.RUNNING)
    host.say(as_bytes(WHOLE_RUN[1]))

    assert finish(job, host, clock).reason == "bad_output"
    assert last_message(job, "cleaning") == "line 1: comes before an environment line"


def test_timings_of_another_machine_are_refused(
    machine: Machine, job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    machine.device.reported_name = "Another CPU"
    machine.device.save()
    advance_until(job, host, clock, State.RUNNING)
    host.say(as_bytes(*WHOLE_RUN))

    ended = finish(job, host, clock)

    assert (ended.state, ended.reason) == ("failed", "wrong_machine")
    assert MeasurementRun.objects.count() == 0
    assert host.stops == [False]


# Ways out ---------------------------------------------------------------------------------------


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
    first, second = new_job(machine), factories.create_job(machine=machine)
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
    first, second = new_job(machine), new_job(machine)
    monkeypatch.setattr("benchmarking.jobs.steps._other_local_job_is_under_way", lambda job: False)

    advance_job(first.pk, host=host)
    advance_job(second.pk, host=host)

    assert (state_of(first), state_of(second)) == ("launching", "queued")
    assert reload(second).step_failures == 0


# Failures ---------------------------------------------------------------------------------------


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


def test_step_that_fails_five_times_in_a_row_is_cleaned_up_with_its_traceback(
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


def test_one_poisoned_job_does_not_hold_up_the_others(machine: Machine, clock: Travel) -> None:
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

    advance_job(job.pk, host=host)

    assert reload(job).is_final
    assert reload(job).reason == ("cancelled" if state == State.CLEANING else "deadline")


# Deaths and leases ------------------------------------------------------------------------------

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
def test_death_at_any_point_loses_and_doubles_nothing(
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
def test_death_while_cancelling_leaves_nothing_running(
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


def test_death_between_storing_and_returning_the_lease(
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
def test_worker_that_lost_its_lease_writes_nothing(
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


# Bell and sweeper -------------------------------------------------------------------------------


def test_every_step_rings_for_the_next_and_the_last_one_does_not(
    job: BenchmarkJob, host: FakeHost, clock: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[tuple[uuid.UUID, float]] = []

    def ring(job_id: uuid.UUID, delay_seconds: float) -> None:
        rung.append((job_id, delay_seconds))

    # The test's own transaction never commits.
    monkeypatch.setattr("django.db.transaction.on_commit", lambda act, **options: act())
    for expected_seconds in (0.0, 0.0, 1.0):
        advance_job(job.pk, host=host, ring=ring)
        assert rung.pop() == (job.pk, expected_seconds)
    cancel_job(job)
    while (delay_seconds := advance_job(job.pk, host=host, ring=ring)) is not None:
        assert rung.pop() == (job.pk, delay_seconds)
        clock.shift(delay_seconds)
    assert rung == []


def test_sweep_finds_due_jobs_that_nobody_has_in_hand(machine: Machine, clock: Travel) -> None:
    def job_with(**values: Any) -> uuid.UUID:
        return factories.create_job(machine=machine, **values).pk

    late = job_with(due_at=NOON - timedelta(hours=1))
    due = job_with(due_at=NOON)
    abandoned = job_with(
        due_at=NOON - timedelta(minutes=1),
        lease_token=uuid.uuid4(),
        lease_expires_at=NOON - timedelta(seconds=1),
    )
    job_with(due_at=NOON + timedelta(seconds=1))
    job_with(lease_token=uuid.uuid4(), lease_expires_at=NOON + timedelta(seconds=1))
    for state in BenchmarkJob.FINAL_STATES:
        job_with(state=state)

    assert due_job_ids() == [late, abandoned, due]


def test_sweep_costs_one_query_however_many_jobs_there_are(
    machine: Machine, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(50):
        factories.create_job(machine=machine)

    with django_assert_num_queries(1):
        assert len(due_job_ids()) == 50


def test_looking_at_a_running_job_does_not_load_its_plan(
    job: BenchmarkJob,
    host: FakeHost,
    clock: Travel,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    advance_until(job, host, clock, State.RUNNING)

    with django_assert_max_num_queries(4) as queries:
        advance_job(job.pk, host=host)

    assert not any('"plan"' in query["sql"] for query in queries.captured_queries)
