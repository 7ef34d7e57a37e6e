"""The local host alone: its processes outlive their starter, and belong to one computer."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from benchmarking.hosts.base import HostJob, HostUnavailableError, ProcessStatus
from benchmarking.hosts.local import LocalHost
from benchmarking.tests.hosts.runs import WAITING, LocalRuns, wait_for_end


@pytest.fixture
def job() -> HostJob:
    return HostJob(uuid.uuid4())


def test_probe_outlives_the_process_that_started_it(tmp_path: Path, job: HostJob) -> None:
    runs = LocalRuns(tmp_path)
    starter = f"""
import pathlib, sys, uuid
from benchmarking.hosts.base import HostJob
from benchmarking.hosts.local import LocalHost
job = HostJob(uuid.UUID({str(job.id)!r}))
host = LocalHost(pathlib.Path({str(tmp_path)!r}), (sys.executable, "probe.py"))
host.acquire(job)
host.put(job, {{"plan.json": b"{{}}", "probe.py": {WAITING.encode()!r}}})
host.start(job)
while not host.fetch(job, 0, 100):
    pass
import os, signal
os.killpg(0, signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", starter], start_new_session=True, check=False)
    assert ended.returncode == -signal.SIGKILL

    try:
        assert runs.host().poll(job).status is ProcessStatus.RUNNING
        (runs.folder(job) / "go").touch()
        assert wait_for_end(runs, job).exit_code == 0
        assert runs.host().fetch(job, 0, 1000) == b"begun\nfinished\n"
    finally:
        runs.close()


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
