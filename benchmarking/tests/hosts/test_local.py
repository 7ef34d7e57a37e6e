"""The local host with real processes: a shell script stands in for the probe."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarking.hosts.base import HostJob, HostUnavailableError, ProcessReport, ProcessStatus
from benchmarking.hosts.local import LocalHost

QUICK = "print('one'); print('two')"
# Waits for a word, so that a test decides when the probe goes on; ends by itself in any case.
WAITING = """
import pathlib, signal, sys, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
print("begun", flush=True)
for _ in range(6000):
    if asked or pathlib.Path("go").exists():
        break
    time.sleep(0.01)
print("stopped" if asked else "finished", flush=True)
"""


@pytest.fixture
def job() -> HostJob:
    return HostJob(uuid.uuid4())


class Runs:
    """Hosts of one folder, all of whose processes end with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.groups: set[int] = set()

    def host(self, program: str = QUICK) -> LocalHost:
        return LocalHost(self.folder, command=(sys.executable, "-c", program))

    def started(self, job: HostJob, program: str = QUICK) -> LocalHost:
        host = self.host(program)
        assert host.acquire(job)
        assert host.is_ready(job)
        host.put(job, {"plan.json": b"{}"})
        host.start(job)
        wait_until(lambda: (host.folder(job) / "process").exists())
        self.groups.add(self.pid(job))
        return host

    def pid(self, job: HostJob) -> int:
        path = self.folder / str(job.id) / "process"
        wait_until(lambda: path.read_text().count("\n") == 2)
        return int(path.read_text().split()[0])


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    runs = Runs(tmp_path / "runs")
    yield runs
    for group in runs.groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            continue


def wait_until(condition: object, seconds: float = 60.0) -> None:
    """Wait for something that a process of its own does, as long as it needs."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited for too long"
        time.sleep(0.005)


def wait_for_end(host: LocalHost, job: HostJob) -> ProcessReport:
    wait_until(lambda: host.poll(job).status is ProcessStatus.ENDED)
    return host.poll(job)


def test_what_the_probe_prints_is_fetched_from_any_place(runs: Runs, job: HostJob) -> None:
    host = runs.started(job)
    report = wait_for_end(host, job)

    assert (report.status, report.exit_code) == (ProcessStatus.ENDED, 0)
    assert host.fetch(job, 0, 1000) == b"one\ntwo\n"
    assert host.fetch(job, 4, 1000) == b"two\n"
    assert host.fetch(job, 4, 2) == b"tw"
    assert host.fetch(job, 8, 1000) == b""


def test_plan_is_the_standard_input_and_errors_are_kept(runs: Runs, job: HostJob) -> None:
    program = "import sys; sys.stderr.write('no ' + sys.stdin.read()); sys.exit(2)"
    host = runs.started(job, program)

    report = wait_for_end(host, job)

    assert report == ProcessReport(ProcessStatus.ENDED, 2, "no {}")


def test_nothing_runs_before_it_is_started(runs: Runs, job: HostJob) -> None:
    host = runs.host()
    host.acquire(job)

    assert host.poll(job).status is ProcessStatus.NOT_STARTED
    assert host.fetch(job, 0, 1000) == b""
    host.stop(job, force=True)


def test_second_start_starts_nothing(runs: Runs, job: HostJob) -> None:
    host = runs.started(job, WAITING)
    pid = runs.pid(job)

    host.start(job)
    runs.host(QUICK).start(job)
    (host.folder(job) / "go").touch()
    wait_for_end(host, job)

    assert runs.pid(job) == pid
    assert host.fetch(job, 0, 1000) == b"begun\nfinished\n"


def test_two_starts_at_once_start_one(runs: Runs, job: HostJob) -> None:
    host = runs.host()
    host.acquire(job)
    host.put(job, {"plan.json": b"{}"})

    # Neither sees a process yet, as after a crash between starting and looking.
    for _ in range(5):
        host.start(job)
    wait_for_end(host, job)

    assert host.fetch(job, 0, 1000) == b"one\ntwo\n"


def test_probe_outlives_the_process_that_started_it(runs: Runs, job: HostJob) -> None:
    starter = f"""
import pathlib, sys, uuid
from benchmarking.hosts.base import HostJob
from benchmarking.hosts.local import LocalHost
job = HostJob(uuid.UUID({str(job.id)!r}))
host = LocalHost(pathlib.Path({str(runs.folder)!r}), (sys.executable, "-c", {WAITING!r}))
host.acquire(job)
host.put(job, {{"plan.json": b"{{}}"}})
host.start(job)
while not host.fetch(job, 0, 100):
    pass
import os, signal
os.killpg(0, signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", starter], start_new_session=True, check=False)
    assert ended.returncode == -signal.SIGKILL

    host = runs.host(WAITING)
    runs.groups.add(runs.pid(job))
    assert host.poll(job).status is ProcessStatus.RUNNING
    (host.folder(job) / "go").touch()
    assert wait_for_end(host, job).exit_code == 0
    assert host.fetch(job, 0, 1000) == b"begun\nfinished\n"


def test_stop_lets_the_probe_finish_its_timing(runs: Runs, job: HostJob) -> None:
    host = runs.started(job, WAITING)
    wait_until(lambda: host.fetch(job, 0, 100) == b"begun\n")

    host.stop(job, force=False)

    assert wait_for_end(host, job).exit_code == 0
    assert host.fetch(job, 0, 1000) == b"begun\nstopped\n"


def test_forced_stop_ends_everything_at_once(runs: Runs, job: HostJob) -> None:
    host = runs.started(job, WAITING)
    wait_until(lambda: host.fetch(job, 0, 100) == b"begun\n")

    host.stop(job, force=True)

    assert wait_for_end(host, job).exit_code is None
    assert host.fetch(job, 0, 1000) == b"begun\n"
    assert host.release(job)


def test_killed_probe_leaves_the_number_of_its_signal(runs: Runs, job: HostJob) -> None:
    host = runs.started(job, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")

    assert wait_for_end(host, job).exit_code == 128 + signal.SIGKILL


def test_probe_whose_shell_was_killed_still_runs(runs: Runs, job: HostJob) -> None:
    host = runs.started(job, WAITING)
    wait_until(lambda: host.fetch(job, 0, 100) == b"begun\n")
    os.kill(runs.pid(job), signal.SIGKILL)
    wait_until(lambda: not_running(runs.pid(job)))

    assert host.poll(job).status is ProcessStatus.RUNNING
    assert not host.release(job)

    host.stop(job, force=True)
    assert wait_for_end(host, job).exit_code is None


def not_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_recycled_pid_is_not_mistaken_for_the_probe(runs: Runs, job: HostJob) -> None:
    host = runs.started(job)
    wait_for_end(host, job)
    (host.folder(job) / "exit_code").unlink()
    process = host.folder(job) / "process"
    first, stat = process.read_text().splitlines()
    # This test's own process stands for a stranger that got the probe's pid.
    stranger = str(os.getpid())
    process.write_text(
        f"{stranger} {first.split()[1]}\n{stat.replace(stat.split()[0], stranger)}\n"
    )

    assert host.poll(job).status is ProcessStatus.ENDED
    host.stop(job, force=True)
    assert host.release(job)


def test_process_of_an_earlier_boot_has_ended(runs: Runs, job: HostJob) -> None:
    host = runs.started(job, WAITING)
    process = host.folder(job) / "process"
    first, stat = process.read_text().splitlines()
    process.write_text(f"{first.split()[0]} {uuid.uuid4()}\n{stat}\n")

    assert host.poll(job) == ProcessReport(ProcessStatus.ENDED, None, "")


def test_released_job_cannot_be_started_any_more(runs: Runs, job: HostJob) -> None:
    host = runs.host()
    host.acquire(job)
    host.put(job, {"plan.json": b"{}"})
    assert host.release(job)
    assert host.release(job)

    host.start(job)

    assert host.poll(job).status is ProcessStatus.NOT_STARTED
    assert host.fetch(job, 0, 100) == b""


def test_release_waits_for_a_shell_that_is_about_to_start(tmp_path: Path, job: HostJob) -> None:
    now = time.time()
    later = [now]
    host = LocalHost(tmp_path, clock=lambda: later[0])
    host.acquire(job)
    (host.folder(job) / "process").touch()

    assert not host.release(job)
    later[0] = now + 120
    assert host.release(job)


def test_running_probe_is_not_released(runs: Runs, job: HostJob) -> None:
    host = runs.started(job, WAITING)

    assert not host.release(job)


def test_job_of_another_computer_is_left_alone(tmp_path: Path, job: HostJob) -> None:
    here, there = LocalHost(tmp_path / "here"), LocalHost(tmp_path / "there")
    there.acquire(job)

    with pytest.raises(HostUnavailableError, match=r"this job runs on .*, not here on"):
        here.poll(job)
    with pytest.raises(HostUnavailableError):
        here.release(job)


def test_folder_keeps_its_computers_name(tmp_path: Path) -> None:
    first, second = HostJob(uuid.uuid4()), HostJob(uuid.uuid4())

    LocalHost(tmp_path).acquire(first)
    LocalHost(tmp_path).acquire(second)

    assert first.state == second.state
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["node"]
