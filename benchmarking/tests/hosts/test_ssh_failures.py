"""What goes wrong on the way to a machine and on it: silence, cuts, a full disk, no Python."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest

from benchmarking.hosts.base import (
    HostFault,
    HostFaultError,
    HostJob,
    HostUnavailableError,
    ProcessStatus,
)
from benchmarking.hosts.ssh import SshHost, SshTarget, host
from benchmarking.tests.hosts.runs import QUICK, WAITING, wait_until
from benchmarking.tests.sshd import FakeMachine

pytestmark = pytest.mark.sshd

FILES = {"plan.json": b"{}", "probe.py": QUICK.encode()}
QUICK_TIMEOUT = 0.3


@pytest.fixture
def job() -> HostJob:
    return HostJob(uuid.uuid4())


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[FakeMachine]:
    with FakeMachine(tmp_path / "machine", probe=None) as machine:
        yield machine


def host_of(machine: FakeMachine, **changes: object) -> SshHost:
    return SshHost(SshTarget(**machine.target_values(**changes)))


def started(machine: FakeMachine, job: HostJob, program: str) -> Path:
    """The folder of the job, whose program has begun."""
    host_of(machine).put(job, {**FILES, "probe.py": program.encode()})
    host_of(machine).start(job)
    folder = machine.run_folder(job.id)
    wait_until(lambda: (folder / "results.jsonl").exists())
    return folder


def test_machine_that_is_off_is_not_ready_and_not_there(machine: FakeMachine, job: HostJob) -> None:
    machine.kill()

    assert not host_of(machine).is_ready(job)
    with pytest.raises(HostUnavailableError, match=r"does not answer: Unable to connect"):
        host_of(machine).poll(job)


def test_name_that_nobody_knows_is_not_there(machine: FakeMachine, job: HostJob) -> None:
    assert not host_of(machine, address="gpu.invalid").is_ready(job)


def test_hanging_machine_is_given_up_in_time(machine: FakeMachine, job: HostJob) -> None:
    machine.hang()
    host = SshHost(SshTarget(**machine.target_values()), connect_timeout=QUICK_TIMEOUT)
    began = time.monotonic()

    assert not host.is_ready(job)
    with pytest.raises(HostUnavailableError):
        host.poll(job)

    assert time.monotonic() - began < 30
    machine.resume()
    assert host_of(machine).is_ready(job)


def test_machine_that_hangs_in_the_middle_is_given_up_in_time(
    machine: FakeMachine, job: HostJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_session = paramiko.Transport.open_session

    def hang_after(*arguments: object, **options: object) -> paramiko.Channel:
        channel = open_session(*arguments, **options)
        machine.hang()
        return channel

    monkeypatch.setattr(paramiko.Transport, "open_session", hang_after)
    host = SshHost(SshTarget(**machine.target_values()), call_seconds=2.0)
    began = time.monotonic()

    with pytest.raises(HostUnavailableError, match="did not answer in time"):
        host.poll(job)

    assert time.monotonic() - began < 30


def test_command_that_never_ends_is_given_up_in_time(tmp_path: Path, job: HostJob) -> None:
    with FakeMachine(tmp_path / "machine", login_script="sleep 1000") as machine:
        host = SshHost(SshTarget(**machine.target_values()), call_seconds=1.0)

        with pytest.raises(HostUnavailableError, match="did not answer in time"):
            host.poll(job)


def test_the_run_goes_on_without_ssh(machine: FakeMachine, job: HostJob) -> None:
    folder = started(machine, job, WAITING)

    machine.kill()
    with pytest.raises(HostUnavailableError):
        host_of(machine).poll(job)
    (folder / "go").touch()
    wait_until(lambda: (folder / "exit_code").exists())
    machine.start()

    assert host_of(machine).poll(job).exit_code == 0
    assert host_of(machine).fetch(job, 0, 100) == b"begun\nfinished\n"


def test_connection_lost_after_the_start_is_not_a_second_run(
    machine: FakeMachine, job: HostJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    host_of(machine).put(job, FILES)
    recv = paramiko.Channel.recv

    def cut(*arguments: object) -> bytes:
        wait_until(lambda: (machine.run_folder(job.id) / "exit_code").exists())
        machine.drop_connections()
        return recv(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(paramiko.Channel, "recv", cut)
        with pytest.raises(HostUnavailableError):
            host_of(machine).start(job)
            # What was said before the cut may have come through.
            raise HostUnavailableError
    host_of(machine).start(job)

    assert host_of(machine).fetch(job, 0, 100) == b"one\ntwo\n"


def test_put_that_is_cut_leaves_no_half_file(
    machine: FakeMachine, job: HostJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(range(256)) * 4096
    folder = machine.run_folder(job.id)
    partial = folder / "plan.json.partial"
    sendall = paramiko.Channel.sendall

    def half_then_cut(channel: paramiko.Channel, data: bytes) -> None:
        half = len(data) // 2
        sendall(channel, data[:half])
        wait_until(lambda: partial.exists() and partial.stat().st_size == half)
        machine.kill()

    with monkeypatch.context() as patch:
        patch.setattr(paramiko.Channel, "sendall", half_then_cut)
        with pytest.raises(HostUnavailableError):
            host_of(machine).put(job, {"plan.json": content})
    wait_until(lambda: not partial.exists())
    assert not (folder / "plan.json").exists()

    machine.start()
    host_of(machine).put(job, {"plan.json": content})
    assert (folder / "plan.json").read_bytes() == content


def fault_of(call: Callable[[], object]) -> HostFaultError:
    with pytest.raises(HostFaultError) as info:
        call()
    return info.value


def test_full_disk_is_told_when_files_are_put(tmp_path: Path, job: HostJob) -> None:
    with FakeMachine(tmp_path / "machine", disk_kib=64) as machine:
        fault = fault_of(lambda: host_of(machine).put(job, {"plan.json": b"x" * 200_000}))

        assert fault.fault is HostFault.DISK_FULL
        assert f"{machine.address}:{machine.port}: plan.json cannot be written" in fault.message
        assert list(machine.run_folder(job.id).iterdir()) == []


def test_too_little_space_is_told_before_the_probe_starts(
    machine: FakeMachine, job: HostJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "MINIMUM_FREE_KIB", 10**12)
    host_of(machine).put(job, FILES)

    fault = fault_of(lambda: host_of(machine).start(job))

    assert fault.fault is HostFault.DISK_FULL
    assert "KiB are free" in fault.message
    assert host_of(machine).poll(job).status is ProcessStatus.NOT_STARTED


def test_probe_that_fills_the_disk_is_told_from_one_that_fails(
    tmp_path: Path, job: HostJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "MINIMUM_FREE_KIB", 0)
    program = "while True: print('x' * 10000, flush=True)"
    with FakeMachine(tmp_path / "machine", probe=None, disk_kib=512) as machine:
        host_of(machine).put(job, {**FILES, "probe.py": program.encode()})
        host_of(machine).start(job)
        wait_until(lambda: host_of(machine).poll(job).status is ProcessStatus.ENDED)
        report = host_of(machine).poll(job)

        assert report.is_disk_full
        assert report.exit_code != 0
        # What was printed before is still there to be collected.
        assert host_of(machine).fetch(job, 0, 10001) == b"x" * 10000 + b"\n"


def test_failed_probe_on_a_roomy_disk_has_not_filled_it(machine: FakeMachine, job: HostJob) -> None:
    host_of(machine).put(job, {**FILES, "probe.py": b"import sys; sys.exit('no torch here')"})
    host_of(machine).start(job)
    wait_until(lambda: (machine.run_folder(job.id) / "exit_code").exists())

    report = host_of(machine).poll(job)

    assert (report.exit_code, report.errors, report.is_disk_full) == (1, "no torch here", False)


@pytest.mark.parametrize("python", ["python9", "/nowhere/bin/python", "$(touch hacked)"])
def test_missing_interpreter_is_told_by_its_name(
    machine: FakeMachine, job: HostJob, python: str
) -> None:
    target = host_of(machine, python=python)
    target.put(job, FILES)

    faults = [fault_of(lambda: target.start(job)), fault_of(target.check)]

    assert {fault.fault for fault in faults} == {HostFault.SETUP}
    assert all(fault.message.endswith(f"there is no {python}") for fault in faults)
    assert not list(machine.home.rglob("hacked"))


def test_login_without_a_shell_is_told_in_its_own_words(tmp_path: Path, job: HostJob) -> None:
    words = 'Please login as the user "ubuntu" rather than the user "root".'
    with FakeMachine(tmp_path / "machine", login_script=f"echo '{words}'; exit 142") as machine:
        fault = fault_of(lambda: host_of(machine).is_ready(job))

    assert fault.fault is HostFault.SETUP
    assert fault.message.endswith(f"runs no commands in a shell; it answers: {words!r}")


def test_greeting_of_the_login_shell_is_no_part_of_an_answer(tmp_path: Path, job: HostJob) -> None:
    with FakeMachine(tmp_path / "machine", probe=None, login_script="echo Welcome") as machine:
        started(machine, job, QUICK)
        wait_until(lambda: (machine.run_folder(job.id) / "exit_code").exists())

        assert host_of(machine).poll(job).exit_code == 0
        assert host_of(machine).fetch(job, 0, 100) == b"one\ntwo\n"


def test_endless_output_is_cut_off(tmp_path: Path, job: HostJob) -> None:
    with FakeMachine(tmp_path / "machine", login_script="yes") as machine:
        fault = fault_of(lambda: host_of(machine).poll(job))

    assert fault.fault is HostFault.SETUP
    assert len(fault.message) < 1000


def test_gigabyte_of_results_is_fetched_in_pieces_of_the_size_asked_for(
    machine: FakeMachine, job: HostJob
) -> None:
    folder = machine.run_folder(job.id)
    folder.mkdir(parents=True)
    with (folder / "results.jsonl").open("wb") as file:
        file.truncate(2**30)
        file.seek(2**30 - 4)
        file.write(b"end\n")

    assert host_of(machine).fetch(job, 0, 70_000) == bytes(70_000)
    assert host_of(machine).fetch(job, 2**30 - 6, 70_000) == b"\0\0end\n"


def test_only_new_bytes_are_transferred(
    machine: FakeMachine, job: HostJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = machine.run_folder(job.id)
    folder.mkdir(parents=True)
    (folder / "results.jsonl").write_bytes(b"x" * 100_000 + b"new\n")
    received: list[int] = []
    recv = paramiko.Channel.recv

    def count(channel: paramiko.Channel, size: int) -> bytes:
        data: bytes = recv(channel, size)
        received.append(len(data))
        return data

    monkeypatch.setattr(paramiko.Channel, "recv", count)

    assert host_of(machine).fetch(job, 100_000, 2**20) == b"new\n"
    assert sum(received) < 100


def test_folder_that_cannot_be_made_is_told_and_given_back(
    machine: FakeMachine, job: HostJob
) -> None:
    (machine.home / "epochcast").write_text("a file in the way")
    target = host_of(machine)

    fault = fault_of(lambda: target.put(job, FILES))

    assert fault.fault is HostFault.SETUP
    assert "plan.json cannot be written: mkdir: cannot create directory" in fault.message
    assert target.poll(job).status is ProcessStatus.NOT_STARTED
    assert target.fetch(job, 0, 100) == b""
    assert target.release(job)


def test_check_says_what_is_there(machine: FakeMachine) -> None:
    said = host_of(machine).check()

    assert said.startswith(f"logged in as {machine.user}@127.0.0.2:{machine.port}; python3 is")
    assert said.endswith("MiB are free")
