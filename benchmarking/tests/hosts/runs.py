"""Probes of real processes on every kind of host: a short program stands in for the probe."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from benchmarking.hosts.base import Host, HostJob, ProcessReport, ProcessStatus
from benchmarking.hosts.local import LocalHost
from benchmarking.hosts.ssh import SshHost, SshTarget
from benchmarking.tests.sshd import FakeMachine

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


class Runs(Protocol):
    """A place for probes, all of which end with the test."""

    def host(self) -> Host:
        """The host, new with every call: nothing is kept between two calls."""
        ...

    def folder(self, job: HostJob) -> Path:
        """Where the files of the job lie."""
        ...

    def close(self) -> None:
        """End what still runs."""
        ...


class LocalRuns:
    """Probes on this computer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def host(self) -> Host:
        return LocalHost(self._folder, command=(sys.executable, "probe.py"))

    def folder(self, job: HostJob) -> Path:
        return self._folder / str(job.id)

    def close(self) -> None:
        for path in self._folder.glob("*/process"):
            first = path.read_text().split()[:1]
            if first and first[0].isdecimal():
                try:
                    os.killpg(int(first[0]), signal.SIGKILL)
                except ProcessLookupError:
                    continue


class SshRuns:
    """Probes on a machine over SSH."""

    def __init__(self, folder: Path) -> None:
        self.machine = FakeMachine(folder, probe=None)
        self.machine.start()

    def host(self) -> Host:
        return SshHost(SshTarget(**self.machine.target_values()))

    def folder(self, job: HostJob) -> Path:
        return self.machine.run_folder(job.id)

    def close(self) -> None:
        self.machine.stop()


def put(runs: Runs, job: HostJob, program: str) -> None:
    """Everything before the start."""
    assert runs.host().acquire(job)
    assert runs.host().is_ready(job)
    runs.host().put(job, {"plan.json": b"{}", "probe.py": program.encode()})


def start(runs: Runs, job: HostJob, program: str) -> int:
    """Put and start the program; return the process group of its shell."""
    put(runs, job, program)
    runs.host().start(job)
    wait_until(lambda: _group(runs, job) is not None)
    group = _group(runs, job)
    assert group is not None
    return group


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something that a process of its own does, as long as it needs."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited for too long"
        time.sleep(0.005)


def wait_for_text(runs: Runs, job: HostJob, text: bytes) -> None:
    """Wait until the probe has printed this and nothing else."""
    wait_until(lambda: _printed(runs, job) == text)
    assert runs.host().fetch(job, 0, 1000) == text


def wait_for_end(runs: Runs, job: HostJob) -> ProcessReport:
    """The report of the probe that has ended."""
    wait_until(lambda: (group := _group(runs, job)) is not None and _group_has_ended(group))
    report = runs.host().poll(job)
    assert report.status is ProcessStatus.ENDED
    return report


def _group(runs: Runs, job: HostJob) -> int | None:
    """The process group of the probe's shell, once that shell has written all that it writes."""
    path = runs.folder(job) / "process"
    text = path.read_text() if path.exists() else ""
    return int(text.split()[0]) if text.count("\n") == 2 else None


def _printed(runs: Runs, job: HostJob) -> bytes:
    path = runs.folder(job) / "results.jsonl"
    return path.read_bytes() if path.exists() else b""


def _group_has_ended(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return has_ended(group)


def has_ended(pid: int) -> bool:
    """Whether nothing of the process is left but its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        # The latter where it goes between opening and reading.
        return True
