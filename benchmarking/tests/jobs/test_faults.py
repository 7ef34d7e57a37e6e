"""Bad input, refusals and cancelling: every way out has its end state and says what to do."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from benchmarking.hosts.base import HostFault, HostFaultError, HostJob, ProcessReport, ProcessStatus
from benchmarking.jobs.advance import advance_job
from benchmarking.jobs.budget import LimitReachedError
from benchmarking.jobs.faults import REASONS_OF_FAULTS
from benchmarking.jobs.lifecycle import State, cancel_job
from benchmarking.jobs.reasons import Reason
from benchmarking.jobs.secrets import create_job_secret
from benchmarking.models import (
    BenchmarkJob,
    IterationTiming,
    JobEvent,
    JobSecret,
    MeasurementRun,
)
from benchmarking.tests.jobs.driving import (
    NOON,
    Travel,
    advance_until,
    finish,
    last_message,
    reload,
    v100_environment,
)
from benchmarking.tests.jobs.fake_host import FakeHost
from benchmarking.tests.probe_lines import as_bytes, iteration_line

pytestmark = pytest.mark.django_db


Arrange = Callable[[FakeHost], None]


def refuses(call: str, fault: HostFault, message: str) -> Arrange:
    def arrange(host: FakeHost) -> None:
        host.faults[call] = HostFaultError(fault, message)

    return arrange


def ends(exit_code: int | None, errors: str = "", **report: Any) -> Arrange:
    def arrange(host: FakeHost) -> None:
        host.report = ProcessReport(ProcessStatus.ENDED, exit_code, errors, **report)

    return arrange


def prints(data: bytes) -> Arrange:
    return lambda host: host.say(data)


BAD_INPUT = [
    pytest.param(
        State.LAUNCHING,
        refuses("acquire", HostFault.CREDENTIALS, "AuthFailure: AWS was not able to validate"),
        "credentials",
        "AuthFailure: AWS was not able to validate",
        "renew them where the workers run",
        id="expired credential",
    ),
    pytest.param(
        State.LAUNCHING,
        refuses("acquire", HostFault.QUOTA, "VcpuLimitExceeded: your limit of 0 vCPUs"),
        "quota",
        "VcpuLimitExceeded: your limit of 0 vCPUs",
        "ask the provider for a higher one",
        id="quota of 0",
    ),
    pytest.param(
        State.LAUNCHING,
        refuses("acquire", HostFault.CAPACITY, "No zone has a p3.2xlarge now."),
        "no_capacity",
        "No zone has a p3.2xlarge now. Tried ",
        "allow more regions or another price kind",
        id="no capacity anywhere",
    ),
    pytest.param(
        State.LAUNCHING,
        refuses("acquire", HostFault.CONFIGURATION, "InvalidAMIID.NotFound: ami-1"),
        "configuration",
        "InvalidAMIID.NotFound: ami-1",
        "which setting to mend",
        id="wrong image id",
    ),
    pytest.param(
        State.LAUNCHING,
        refuses("acquire", HostFault.LAUNCH_BUG, "IdempotentParameterMismatch"),
        "launch_bug",
        "IdempotentParameterMismatch",
        "please report it",
        id="token of another request",
    ),
    pytest.param(
        State.LAUNCHING,
        lambda host: host.faults.update(
            acquire=LimitReachedError("BENCHMARK_USD_PER_MONTH is 0.", may_wait=False)
        ),
        "limit",
        "BENCHMARK_USD_PER_MONTH is 0.",
        "raise it or wait for the next month",
        id="cap of zero",
    ),
    pytest.param(
        State.LAUNCHING,
        refuses("acquire", HostFault.RETIRED, "aws-p3.2xlarge is retired"),
        "machine_retired",
        "aws-p3.2xlarge is retired",
        "choose another one",
        id="retired machine",
    ),
    pytest.param(
        State.BOOTING,
        refuses("is_ready", HostFault.HOST_KEY, "ubuntu@10.0.0.1:22 has the host key SHA256:x"),
        "host_key_mismatch",
        "ubuntu@10.0.0.1:22 has the host key SHA256:x",
        "Find out who answers at that address",
        id="host key mismatch",
    ),
    pytest.param(
        State.BOOTING,
        refuses("is_ready", HostFault.LOGIN, "ubuntu@10.0.0.1:22 refuses the login key"),
        "login_refused",
        "ubuntu@10.0.0.1:22 refuses the login key",
        "check the user and its key there",
        id="login refused",
    ),
    pytest.param(
        State.BOOTING,
        refuses("start", HostFault.SETUP, "the probe cannot be started: python3: not found"),
        "setup_failed",
        "the probe cannot be started: python3: not found",
        "Mend the image or the name of the interpreter",
        id="image without the interpreter",
    ),
    pytest.param(
        State.BOOTING,
        refuses("put", HostFault.DISK_FULL, "No space left on device"),
        "disk_full",
        "No space left on device",
        "Give it a larger disk",
        id="full disk before the start",
    ),
    pytest.param(
        State.RUNNING,
        ends(2, "probe: torch is not installed for this Python"),
        "probe_refused",
        "torch is not installed for this Python",
        "Mend the image or the interpreter",
        id="image without torch",
    ),
    pytest.param(
        State.RUNNING,
        ends(1, "OSError: [Errno 28] No space left on device", is_disk_full=True),
        "disk_full",
        "The disk is full. OSError: [Errno 28] No space left on device",
        "Give it a larger disk",
        id="full disk",
    ),
    pytest.param(
        State.RUNNING,
        prints(as_bytes(v100_environment("Tesla T4"))),
        "wrong_machine",
        "aws-p3.2xlarge has a V100 (reported as Tesla V100*); this device is a Tesla T4",
        "correct the instance type",
        id="GPU other than expected",
    ),
    pytest.param(
        State.RUNNING,
        prints(as_bytes(v100_environment()) + b"\x00\xff garbage\n"),
        "bad_output",
        "line 2: is not UTF-8 text",
        "the raw file is kept, look at it",
        id="garbage",
    ),
    pytest.param(
        State.RUNNING,
        prints(as_bytes(v100_environment()) + b"x" * 5_000_000),
        "bad_output",
        "line 2: is longer than 1,000,000 bytes",
        "the raw file is kept, look at it",
        id="a gigabyte without a line's end",
    ),
    pytest.param(
        State.RUNNING,
        prints(as_bytes(v100_environment()) + as_bytes(iteration_line(batch_size=1)) * 1001),
        "bad_output",
        "line 1002: it prints more than the plan asks for, which is 0 pieces of work",
        "the raw file is kept, look at it",
        id="the same line for ever",
    ),
    pytest.param(
        State.RUNNING,
        refuses("poll", HostFault.LAUNCH_LOST, "i-1 is terminated: nobody says why"),
        "instance_lost",
        "i-1 is terminated: nobody says why",
        "finished timings are kept",
        id="machine gone",
    ),
]


@pytest.mark.parametrize(("state", "arrange", "reason", "message", "advice"), BAD_INPUT)
def test_bad_input_has_an_end_of_its_own_and_says_what_to_do(
    cloud_job: BenchmarkJob,
    host: FakeHost,
    clock: Travel,
    state: State,
    arrange: Arrange,
    reason: str,
    message: str,
    advice: str,
) -> None:
    create_job_secret(cloud_job)
    advance_until(cloud_job, host, clock, state)
    arrange(host)
    released: list[bool] = []

    def release(job: HostJob) -> bool:
        released.append(True)
        return True

    host.release = release  # type: ignore[method-assign]

    ended = finish(cloud_job, host, clock)

    assert (ended.state, ended.reason) == ("failed", reason)
    assert last_message(cloud_job, "cleaning").startswith(message)
    assert advice in Reason(reason).outcome.sentence
    assert advice in last_message(cloud_job, "failed")
    # Nothing is left: no machine, no key, no claim.
    assert released == [True]
    assert bytes(JobSecret.objects.get().login_key) == b""
    assert "Traceback" not in " ".join(JobEvent.objects.values_list("message", flat=True))


def test_every_fault_has_a_reason() -> None:
    assert set(REASONS_OF_FAULTS) == set(HostFault)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_sentence_tells_more_than_the_name(reason: Reason) -> None:
    sentence = reason.outcome.sentence
    assert len(sentence.split()) >= 6
    assert sentence[0].isupper()
    assert sentence.endswith(".")


def test_r5_capacity_is_waited_for_with_growing_pauses_and_each_try_is_told(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel, settings: Settings
) -> None:
    settings.BENCHMARK_CAPACITY_HOURS = 6
    host.faults["acquire"] = HostFaultError(HostFault.CAPACITY, "No zone has one: us-east-1a full.")

    ended = finish(cloud_job, host, clock)

    assert (ended.state, ended.reason) == ("failed", "no_capacity")
    tries = [
        (event.at, event.message)
        for event in cloud_job.events.filter(new_state=State.WAITING_CAPACITY)
    ]
    pauses = [
        (later - earlier) / timedelta(minutes=1)
        for (earlier, _), (later, _) in itertools.pairwise(tries)
    ]
    assert pauses[0] == pytest.approx(5, abs=1)
    assert all(5 <= pause <= 60 for pause in pauses)
    assert pauses[3] > 30
    assert max(pauses) > 45
    assert all(message.startswith("No zone has one: us-east-1a full.") for _, message in tries)
    assert ended.ended_at - NOON == pytest.approx(timedelta(hours=6), abs=timedelta(minutes=1))


def test_r5_a_machine_that_comes_after_waiting_is_used_with_its_whole_time(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    host.faults["acquire"] = HostFaultError(HostFault.CAPACITY, "none")
    advance_until(cloud_job, host, clock, State.WAITING_CAPACITY)
    clock.shift(timedelta(hours=2))
    host.faults.clear()

    advance_until(cloud_job, host, clock, State.RUNNING)

    assert reload(cloud_job).deadline - timezone.now() > timedelta(minutes=85)


def test_r10_waiting_for_capacity_is_not_extended_by_the_tries(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    host.faults["acquire"] = HostFaultError(HostFault.CAPACITY, "none")
    deadlines: set[datetime] = set()
    for _ in range(5):
        advance_until(cloud_job, host, clock, State.WAITING_CAPACITY)
        deadlines.add(reload(cloud_job).state_deadline)
        clock.shift(timedelta(minutes=61))
        advance_job(cloud_job.pk, host=host)

    assert len(deadlines) == 1


@pytest.mark.parametrize("state", [s for s in State if s not in BenchmarkJob.FINAL_STATES])
def test_r6_cancel_ends_a_job_in_every_state(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel, state: State
) -> None:
    if state == State.WAITING_CAPACITY:
        host.faults["acquire"] = HostFaultError(HostFault.CAPACITY, "none")
    if state in (State.COLLECTING, State.CLEANING):
        advance_until(cloud_job, host, clock, State.RUNNING)
        host.end(1)
    advance_until(cloud_job, host, clock, state)

    cancel_job(cloud_job)
    ended = finish(cloud_job, host, clock)

    assert ended.state == ("failed" if state == State.CLEANING else "cancelled")
    assert not host.is_running


def test_no_run_is_stored_of_a_machine_that_was_not_asked_for(
    cloud_job: BenchmarkJob, host: FakeHost, clock: Travel
) -> None:
    advance_until(cloud_job, host, clock, State.RUNNING)
    host.say(as_bytes(v100_environment("Tesla T4"), iteration_line(batch_size=1)))

    finish(cloud_job, host, clock)

    assert (MeasurementRun.objects.count(), IterationTiming.objects.count()) == (0, 0)
