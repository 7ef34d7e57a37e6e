"""The fake machine itself, asked by Debian's own ssh program."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarking.hosts.ec2.user_data import build_user_data
from benchmarking.hosts.keys import make_key_pair
from benchmarking.hosts.ssh import SshHost, SshTarget
from benchmarking.tests.sshd import FakeMachine

pytestmark = pytest.mark.sshd


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[FakeMachine]:
    with FakeMachine(tmp_path / "machine", environment={"COLOUR": "deep blue"}) as machine:
        yield machine


def ssh(machine: FakeMachine, command: str) -> subprocess.CompletedProcess[str]:
    """Log in with the machine's own login key, accepting only its host key."""
    key = machine.folder / "login_key"
    known = machine.folder / "known_hosts"
    key.unlink(missing_ok=True)
    key.touch(mode=0o600)
    key.write_text(machine.login_keys.private_key)
    known.write_text(f"[{machine.address}]:{machine.port} {machine.host_keys.public_key}\n")
    options = [
        f"UserKnownHostsFile={known}",
        "StrictHostKeyChecking=yes",
        "IdentitiesOnly=yes",
        "BatchMode=yes",
    ]
    return subprocess.run(
        [
            *("ssh", "-F", "none", "-i", str(key), "-p", str(machine.port)),
            *(word for option in options for word in ("-o", option)),
            f"{machine.user}@{machine.address}",
            command,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_machine_has_home_variables_shell_and_python_of_its_own(machine: FakeMachine) -> None:
    command = "pwd; echo $COLOUR; readlink /proc/$$/exe; python3 -c 'print(6 * 7)'"

    result = ssh(machine, command)

    assert result.stdout.splitlines() == [str(machine.home), "deep blue", "/usr/bin/dash", "42"]
    assert machine.commands == [command]


def test_two_machines_know_nothing_of_each_other(machine: FakeMachine, tmp_path: Path) -> None:
    with FakeMachine(tmp_path / "other", address="127.0.0.3") as other:
        ssh(machine, "echo one > note")
        ssh(other, "echo two > note")

        assert (machine.home / "note").read_text() == "one\n"
        assert (other.home / "note").read_text() == "two\n"
        assert len(machine.commands) == len(other.commands) == 1


def test_programs_outlive_the_ssh_server_and_end_with_the_machine(machine: FakeMachine) -> None:
    ssh(machine, "setsid sleep 1000 < /dev/null > /dev/null 2>&1 &")
    machine.kill()
    assert machine.program_count == 1

    machine.start()
    assert ssh(machine, "echo here").stdout == "here\n"
    assert machine.program_count == 1

    machine.stop()
    assert machine.program_count == 0


def test_swapped_host_key_is_seen_by_ssh(machine: FakeMachine) -> None:
    machine.swap_host_key()

    result = ssh(machine, "echo here")

    assert result.stdout == ""
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in result.stderr
    assert machine.commands == []


def test_small_disk_is_full_soon(tmp_path: Path) -> None:
    with FakeMachine(tmp_path / "machine", disk_kib=64) as machine:
        result = ssh(machine, "head -c 200000 /dev/zero > zeros")

        assert result.returncode != 0
        assert (machine.home / "zeros").stat().st_size <= 64 * 1024


def test_machine_takes_its_keys_from_what_a_cloud_was_asked_to_give_it(tmp_path: Path) -> None:
    login, host = make_key_pair(), make_key_pair()
    user_data = build_user_data(
        shutdown_minutes=60,
        user="ubuntu",
        login_public_key=login.public_key,
        host_private_key=host.private_key,
        host_public_key=host.public_key,
    )

    with FakeMachine.from_user_data(
        tmp_path / "machine", user_data, address="127.0.0.4"
    ) as machine:
        target = SshTarget(**machine.target_values(login_private_key=login.private_key))
        assert target.host_public_key == host.public_key
        assert SshHost(target).check().startswith(f"logged in as {machine.user}@127.0.0.4:")
