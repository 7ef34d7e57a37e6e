"""Whole jobs over a real SSH server: every step starts from the database alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarking.hosts.keys import make_key_pair
from benchmarking.jobs.advance import advance_job
from benchmarking.jobs.lifecycle import cancel_job
from benchmarking.jobs.secrets import encrypt_key
from benchmarking.models import BenchmarkJob, IterationTiming, JobEvent, LayerTiming
from benchmarking.tests.jobs.over_ssh import (
    advance_until,
    create_remote_host,
    create_ssh_job,
    finish,
)
from benchmarking.tests.sshd import FakeMachine

pytestmark = [pytest.mark.sshd, pytest.mark.django_db]


@pytest.fixture
def computer(tmp_path: Path) -> Iterator[FakeMachine]:
    with FakeMachine(tmp_path / "computer") as computer:
        yield computer


def timing_counts() -> tuple[int, int]:
    return LayerTiming.objects.count(), IterationTiming.objects.count()


def last_message(job: BenchmarkJob, state: str) -> str:
    return JobEvent.objects.filter(job=job, new_state=state).get().message


def test_job_measures_everything_over_ssh(computer: FakeMachine) -> None:
    job = create_ssh_job(create_remote_host(computer))

    ended = finish(job)

    assert (ended.state, ended.reason) == ("succeeded", "completed")
    assert ended.stored_count == ended.planned_count == 4
    assert timing_counts() == (8, 1)
    assert [event.new_state for event in JobEvent.objects.filter(job=job) if event.new_state] == [
        *("queued", "launching", "booting", "running", "collecting", "cleaning", "succeeded")
    ]
    assert computer.program_count == 0


def test_r11_server_that_dies_in_the_middle_costs_no_timing(tmp_path: Path) -> None:
    hold = {"FAKE_PROBE_HOLD_AFTER": "2"}
    with FakeMachine(tmp_path / "computer", environment=hold) as computer:
        job = create_ssh_job(create_remote_host(computer))
        advance_until(job, lambda stored: stored.stored_count == 2)
        computer.kill()
        for _ in range(2):
            BenchmarkJob.objects.filter(pk=job.pk).update(due_at=job.created_at)
            advance_job(job.pk)
        assert BenchmarkJob.objects.get(pk=job.pk).state == "running"
        (computer.run_folder(job.pk) / "go").touch()
        computer.start()

        ended = finish(job)

    assert (ended.state, ended.stored_count) == ("succeeded", 4)
    assert timing_counts() == (8, 1)


def test_r7_job_on_a_swapped_machine_ends_and_nothing_is_executed(computer: FakeMachine) -> None:
    job = create_ssh_job(create_remote_host(computer))
    computer.swap_host_key()

    ended = finish(job)

    assert (ended.state, ended.reason) == ("failed", "host_key_mismatch")
    assert "is accepted, and nothing was sent there" in last_message(job, "cleaning")
    assert computer.commands == []


def test_r7_machine_swapped_while_a_job_runs_ends_it(tmp_path: Path) -> None:
    hold = {"FAKE_PROBE_HOLD_AFTER": "2"}
    with FakeMachine(tmp_path / "computer", environment=hold) as computer:
        job = create_ssh_job(create_remote_host(computer))
        advance_until(job, lambda stored: stored.stored_count == 2)
        computer.swap_host_key()
        commands = len(computer.commands)

        ended = finish(job)

        assert len(computer.commands) == commands
    assert (ended.state, ended.reason) == ("failed", "host_key_mismatch")
    assert ended.stored_count == 2


def test_r8_refused_login_ends_the_job(computer: FakeMachine) -> None:
    key = encrypt_key(make_key_pair().private_key.encode())
    job = create_ssh_job(create_remote_host(computer, login_key=key))

    ended = finish(job)

    assert (ended.state, ended.reason) == ("failed", "login_refused")
    assert "refuses the login key" in last_message(job, "cleaning")


@pytest.mark.parametrize(
    ("values", "reason", "message"),
    [
        ({"python": "python9"}, "setup_failed", "there is no python9"),
        ({"login_key": b"nothing"}, "configuration", "none of the keys in JOB_SECRET_KEYS"),
    ],
)
def test_host_that_is_entered_wrongly_ends_the_job_with_a_sentence(
    computer: FakeMachine, values: dict[str, object], reason: str, message: str
) -> None:
    job = create_ssh_job(create_remote_host(computer, **values))

    ended = finish(job)

    assert (ended.state, ended.reason) == ("failed", reason)
    assert message in last_message(job, "cleaning")


def test_probe_that_refuses_is_told_in_its_own_words(tmp_path: Path) -> None:
    refusal = {"FAKE_PROBE_REFUSAL": "this Python has no torch"}
    with FakeMachine(tmp_path / "computer", environment=refusal) as computer:
        job = create_ssh_job(create_remote_host(computer))

        ended = finish(job)

    assert (ended.state, ended.reason) == ("failed", "probe_refused")
    assert last_message(job, "cleaning") == "this Python has no torch"


def test_full_disk_has_an_end_of_its_own(tmp_path: Path) -> None:
    with FakeMachine(tmp_path / "computer", disk_kib=16) as computer:
        job = create_ssh_job(create_remote_host(computer))

        ended = finish(job)

    assert (ended.state, ended.reason) == ("failed", "disk_full")
    assert "cannot be written" in last_message(job, "cleaning")


def test_cancelled_job_stops_its_probe_and_keeps_its_timings(tmp_path: Path) -> None:
    hold = {"FAKE_PROBE_HOLD_AFTER": "2"}
    with FakeMachine(tmp_path / "computer", environment=hold) as computer:
        job = create_ssh_job(create_remote_host(computer))
        advance_until(job, lambda stored: stored.stored_count == 2)
        assert cancel_job(BenchmarkJob.objects.get(pk=job.pk))

        ended = finish(job)

        assert computer.program_count == 0
    assert (ended.state, ended.stored_count) == ("cancelled", 2)
