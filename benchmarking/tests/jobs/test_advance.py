"""A job step by step: how its probe's output is stored, and how the end of it decides."""

from __future__ import annotations

import json

import pytest

from benchmarking.jobs import advance
from benchmarking.jobs.advance import advance_job
from benchmarking.jobs.lifecycle import State
from benchmarking.models import (
    BenchmarkJob,
    FailedTiming,
    IterationTiming,
    JobEvent,
    LayerTiming,
    Machine,
    MeasurementRun,
)
from benchmarking.probe import PROBE_PATH
from benchmarking.tests import factories
from benchmarking.tests.jobs.driving import (
    NOON,
    WHOLE_RUN,
    Travel,
    advance_until,
    finish,
    last_message,
    reload,
)
from benchmarking.tests.jobs.fake_host import FakeHost
from benchmarking.tests.probe_lines import (
    as_bytes,
    done_line,
    environment_line,
    iteration_line,
)

pytestmark = pytest.mark.django_db


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
