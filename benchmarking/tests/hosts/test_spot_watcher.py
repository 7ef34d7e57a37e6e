"""The notice of an interruption: seen on the machine itself, whether anybody watches or not."""

from __future__ import annotations

import ast
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarking.hosts.base import HostJob, ProcessReport, ProcessStatus
from benchmarking.hosts.ssh import SshHost, SshTarget, spot_watcher
from benchmarking.tests.hosts.metadata_service import NOTICE, MetadataService
from benchmarking.tests.hosts.runs import QUICK, WAITING, wait_until
from benchmarking.tests.sshd import FakeMachine

pytestmark = pytest.mark.sshd


@pytest.fixture
def service() -> Iterator[MetadataService]:
    with MetadataService() as service:
        yield service


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[FakeMachine]:
    with FakeMachine(tmp_path / "machine", probe=None) as machine:
        yield machine


@pytest.fixture
def job() -> HostJob:
    return HostJob(uuid.uuid4())


def spot_host(machine: FakeMachine, url: str) -> SshHost:
    values = machine.target_values(watches_spot=True, metadata_url=url, spot_poll_seconds=0.01)
    return SshHost(SshTarget(**values))


def start(host: SshHost, machine: FakeMachine, job: HostJob, program: str) -> Path:
    host.put(job, {"plan.json": b"{}", "probe.py": program.encode()})
    host.start(job)
    folder = machine.run_folder(job.id)
    wait_until(lambda: (folder / "results.jsonl").exists())
    wait_until(lambda: (folder / "results.jsonl").read_bytes() != b"")
    return folder


def test_r15_notice_ends_the_probe_and_is_reported(
    machine: FakeMachine, job: HostJob, service: MetadataService
) -> None:
    host = spot_host(machine, service.url)
    folder = start(host, machine, job, WAITING)
    wait_until(lambda: len(service.asked) >= 4)
    assert host.poll(job) == ProcessReport(ProcessStatus.RUNNING)

    service.notice = NOTICE
    wait_until(lambda: (folder / "exit_code").exists())

    assert host.poll(job) == ProcessReport(ProcessStatus.ENDED, 0, is_interrupted=True)
    assert host.fetch(job, 0, 100) == b"begun\nstopped\n"
    assert (folder / "interrupted").read_bytes() == NOTICE
    assert service.asked[:2] == [
        "PUT /latest/api/token",
        "GET /latest/meta-data/spot/instance-action",
    ]


def test_r15_notice_is_acted_upon_while_nobody_can_log_in(
    machine: FakeMachine, job: HostJob, service: MetadataService
) -> None:
    host = spot_host(machine, service.url)
    folder = start(host, machine, job, WAITING)
    machine.kill()

    service.notice = NOTICE

    wait_until(lambda: (folder / "exit_code").exists())
    assert (folder / "results.jsonl").read_bytes() == b"begun\nstopped\n"


def test_r15_interrupted_probe_is_not_signalled_twice(
    machine: FakeMachine, job: HostJob, service: MetadataService
) -> None:
    program = WAITING.replace("if asked or", "if len(asked) > 1 or")
    host = spot_host(machine, service.url)
    folder = start(host, machine, job, program)
    service.notice = NOTICE
    wait_until(lambda: (folder / "interrupted").exists())

    host.stop(job, force=False)
    assert host.poll(job).status is ProcessStatus.RUNNING
    (folder / "go").touch()
    wait_until(lambda: (folder / "exit_code").exists())

    # A second signal would have ended it before that file was there.
    assert not [command for command in machine.commands if "kill -s" in command]


def test_r15_watcher_ends_with_its_probe(
    machine: FakeMachine, job: HostJob, service: MetadataService
) -> None:
    host = spot_host(machine, service.url)
    start(host, machine, job, QUICK)

    wait_until(lambda: machine.program_count == 0)

    assert host.poll(job) == ProcessReport(ProcessStatus.ENDED, 0)


def test_r15_probe_runs_as_well_without_a_metadata_service(
    machine: FakeMachine, job: HostJob
) -> None:
    host = spot_host(machine, "http://127.0.0.1:9")
    folder = start(host, machine, job, WAITING)
    (folder / "go").touch()

    wait_until(lambda: machine.program_count == 0)

    assert host.poll(job) == ProcessReport(ProcessStatus.ENDED, 0)


def test_watcher_runs_on_python_3_8_with_nothing_else() -> None:
    tree = ast.parse(Path(spot_watcher.__file__).read_text(), feature_version=(3, 8))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }

    assert imported <= set(sys.stdlib_module_names)


def test_machine_on_demand_has_no_watcher(machine: FakeMachine, job: HostJob) -> None:
    host = SshHost(SshTarget(**machine.target_values()))

    folder = start(host, machine, job, QUICK)

    assert not (folder / "spot_watcher.py").exists()
