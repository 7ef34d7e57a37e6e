"""What every kind of host promises of a probe, with real processes."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarking.hosts.base import HostJob, ProcessReport, ProcessStatus
from benchmarking.tests.hosts.runs import (
    QUICK,
    WAITING,
    LocalRuns,
    Runs,
    SshRuns,
    has_ended,
    put,
    start,
    wait_for_end,
    wait_for_text,
    wait_until,
)


@pytest.fixture
def job() -> HostJob:
    return HostJob(uuid.uuid4())


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.sshd)])
def runs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runs]:
    kind = LocalRuns if request.param == "local" else SshRuns
    runs: Runs = kind(tmp_path / "runs")
    yield runs
    runs.close()


def test_what_the_probe_prints_is_fetched_from_any_place(runs: Runs, job: HostJob) -> None:
    start(runs, job, QUICK)
    report = wait_for_end(runs, job)

    assert (report.status, report.exit_code) == (ProcessStatus.ENDED, 0)
    assert runs.host().fetch(job, 0, 1000) == b"one\ntwo\n"
    assert [runs.host().fetch(job, offset, 3) for offset in range(9)] == [
        b"one\ntwo\n"[offset : offset + 3] for offset in range(9)
    ]


def test_plan_is_the_standard_input_and_errors_are_kept(runs: Runs, job: HostJob) -> None:
    start(runs, job, "import sys; sys.stderr.write('no ' + sys.stdin.read()); sys.exit(2)")

    assert wait_for_end(runs, job) == ProcessReport(ProcessStatus.ENDED, 2, "no {}")


def test_nothing_runs_before_it_is_started(runs: Runs, job: HostJob) -> None:
    runs.host().acquire(job)

    assert runs.host().poll(job).status is ProcessStatus.NOT_STARTED
    assert runs.host().fetch(job, 0, 1000) == b""
    runs.host().stop(job, force=True)


def test_second_start_starts_nothing(runs: Runs, job: HostJob) -> None:
    group = start(runs, job, WAITING)
    wait_for_text(runs, job, b"begun\n")

    runs.host().start(job)
    assert runs.host().poll(job).status is ProcessStatus.RUNNING
    assert start(runs, job, QUICK) == group
    (runs.folder(job) / "go").touch()
    wait_for_end(runs, job)

    assert runs.host().fetch(job, 0, 1000) == b"begun\nfinished\n"


def test_starts_at_once_start_one(runs: Runs, job: HostJob) -> None:
    put(runs, job, QUICK)

    # Hardly one sees a process yet, as after a crash between starting and looking.
    for _ in range(5):
        runs.host().start(job)
    wait_for_end(runs, job)

    assert runs.host().fetch(job, 0, 1000) == b"one\ntwo\n"


def test_stop_lets_the_probe_finish_its_timing(runs: Runs, job: HostJob) -> None:
    start(runs, job, WAITING)
    wait_for_text(runs, job, b"begun\n")

    runs.host().stop(job, force=False)

    assert wait_for_end(runs, job).exit_code == 0
    assert runs.host().fetch(job, 0, 1000) == b"begun\nstopped\n"


def test_forced_stop_ends_everything_at_once(runs: Runs, job: HostJob) -> None:
    start(runs, job, WAITING)
    wait_for_text(runs, job, b"begun\n")

    runs.host().stop(job, force=True)

    assert wait_for_end(runs, job).exit_code is None
    assert runs.host().fetch(job, 0, 1000) == b"begun\n"
    assert runs.host().release(job)


def test_killed_probe_leaves_the_number_of_its_signal(runs: Runs, job: HostJob) -> None:
    start(runs, job, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")

    assert wait_for_end(runs, job).exit_code == 128 + signal.SIGKILL


def test_probe_whose_shell_was_killed_still_runs(runs: Runs, job: HostJob) -> None:
    group = start(runs, job, WAITING)
    wait_for_text(runs, job, b"begun\n")
    os.kill(group, signal.SIGKILL)
    wait_until(lambda: has_ended(group))

    assert runs.host().poll(job).status is ProcessStatus.RUNNING
    assert not runs.host().release(job)

    runs.host().stop(job, force=True)
    assert wait_for_end(runs, job).exit_code is None


def test_recycled_pid_is_not_mistaken_for_the_probe(runs: Runs, job: HostJob) -> None:
    start(runs, job, QUICK)
    wait_for_end(runs, job)
    (runs.folder(job) / "exit_code").unlink()
    process = runs.folder(job) / "process"
    first, stat = process.read_text().splitlines()
    # This test's own process stands for a stranger that got the probe's pid.
    stranger = str(os.getpid())
    process.write_text(
        f"{stranger} {first.split()[1]}\n{stat.replace(stat.split()[0], stranger)}\n"
    )

    assert runs.host().poll(job).status is ProcessStatus.ENDED
    runs.host().stop(job, force=True)
    assert runs.host().release(job)


def test_process_of_an_earlier_boot_has_ended(runs: Runs, job: HostJob) -> None:
    group = start(runs, job, WAITING)
    process = runs.folder(job) / "process"
    first, stat = process.read_text().splitlines()
    process.write_text(f"{first.split()[0]} {uuid.uuid4()}\n{stat}\n")

    assert runs.host().poll(job) == ProcessReport(ProcessStatus.ENDED, None, "")
    os.killpg(group, signal.SIGKILL)


def test_released_job_cannot_be_started_any_more(runs: Runs, job: HostJob) -> None:
    put(runs, job, QUICK)
    assert runs.host().release(job)
    assert runs.host().release(job)

    runs.host().start(job)

    assert runs.host().poll(job).status is ProcessStatus.NOT_STARTED
    assert runs.host().fetch(job, 0, 100) == b""


def test_release_waits_for_a_shell_that_is_about_to_start(runs: Runs, job: HostJob) -> None:
    put(runs, job, QUICK)
    process = runs.folder(job) / "process"
    process.touch()

    assert not runs.host().release(job)
    written = process.stat().st_mtime
    os.utime(process, (written - 120, written - 120))
    assert runs.host().release(job)


def test_running_probe_is_not_released(runs: Runs, job: HostJob) -> None:
    start(runs, job, WAITING)

    assert not runs.host().release(job)
