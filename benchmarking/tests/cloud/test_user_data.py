"""What a machine is told at its boot, read as cloud-init reads it."""

from __future__ import annotations

import contextlib
import email
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarking.hosts.ec2.user_data import MAXIMUM_BYTES, build_user_data
from benchmarking.hosts.keys import make_key_pair

LOGIN, HOST = make_key_pair(), make_key_pair()


def user_data(minutes: int = 70, user: str = "ubuntu") -> bytes:
    return build_user_data(
        shutdown_minutes=minutes,
        user=user,
        login_public_key=f"{LOGIN.public_key} epochcast",
        host_private_key=HOST.private_key,
        host_public_key=HOST.public_key,
    )


def parts(data: bytes) -> dict[str, str]:
    message = email.message_from_bytes(data)
    return {part.get_content_type(): str(part.get_payload()) for part in message.get_payload()}


def commands(script: str) -> list[str]:
    return [line for line in script.splitlines() if line and not line.startswith("#")]


def run(script: str, tools: Path) -> list[str]:
    """Run a script whose every program is a stub in ``tools``; what it switched off."""
    body = script.removeprefix("#cloud-boothook\n")
    shell = subprocess.Popen(
        ["/bin/sh"],
        stdin=subprocess.PIPE,
        text=True,
        env={"PATH": str(tools)},
        start_new_session=True,
    )
    with (tools / "groups").open("a") as groups:
        groups.write(f"{shell.pid}\n")
    shell.communicate(body, timeout=30)
    log = tools / "log"
    return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Path]:
    """A search path of stubs; what a script has left waiting beside the boot is ended."""
    for name in ("shutdown", "systemd-run"):
        stub(tmp_path, name, f'echo "{name} $*" >> {tmp_path}/log')
    stub(tmp_path, "systemctl", "exit 0")
    yield tmp_path
    groups = tmp_path / "groups"
    for group in groups.read_text().split() if groups.exists() else ():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(group), signal.SIGKILL)


def stub(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def test_r16_first_line_that_runs_arms_the_shutdown() -> None:
    found = parts(user_data(70))
    # A boothook runs before every module of cloud-init, and is the first part.
    assert next(iter(found)) == "text/cloud-boothook"
    first, second = commands(found["text/cloud-boothook"])
    assert "exec shutdown -P +70)" in first
    # Asked before logind is up, some versions of systemd would switch off at once.
    assert first.startswith("(until systemctl -q is-active systemd-logind;")
    assert first.endswith("&")
    assert "--on-active=72min" in second


def test_r16_both_switches_are_armed(tools: Path) -> None:
    armed = run(parts(user_data(70))["text/cloud-boothook"], tools)
    while len(armed) < 2:
        armed = (tools / "log").read_text().splitlines()
    assert sorted(armed) == [
        "shutdown -P +70",
        "systemd-run --no-block --unit=epochcast-end --on-active=72min "
        "--timer-property=DefaultDependencies=no --property=DefaultDependencies=no "
        "systemctl poweroff --force",
    ]


def test_r16_machine_that_cannot_be_armed_switches_off_at_once(tools: Path) -> None:
    (tools / "systemd-run").unlink()
    stub(tools, "systemctl", "sleep 60")
    assert "shutdown -P now" in run(parts(user_data())["text/cloud-boothook"], tools)


@pytest.mark.parametrize("missing", ["host key", "login key", "user"])
def test_r16_machine_without_its_keys_switches_off(tools: Path, missing: str) -> None:
    home = tools / "home"
    (home / ".ssh").mkdir(parents=True)
    key_file = tools / "host_key.pub"
    key_file.write_text(
        f"{make_key_pair().public_key if missing == 'host key' else HOST.public_key}\n"
    )
    authorized = make_key_pair().public_key if missing == "login key" else LOGIN.public_key
    (home / ".ssh" / "authorized_keys").write_text(f"{authorized} somebody\n")
    stub(
        tools,
        "getent",
        "exit 2" if missing == "user" else f"echo ubuntu:x:1000:1000::{home}:/bin/sh",
    )
    for name in ("grep", "cut"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    script = parts(user_data())["text/x-shellscript"]
    assert "/etc/ssh/ssh_host_ed25519_key.pub" in script
    script = script.replace("/etc/ssh/ssh_host_ed25519_key.pub", str(key_file))

    assert run(script, tools) == ["shutdown -P now"]


def test_machine_with_its_keys_stays_on(tools: Path) -> None:
    home = tools / "home"
    (home / ".ssh").mkdir(parents=True)
    (tools / "host_key.pub").write_text(f"{HOST.public_key}\n")
    (home / ".ssh" / "authorized_keys").write_text(f"{LOGIN.public_key} epochcast\n")
    stub(tools, "getent", f"echo ubuntu:x:1000:1000::{home}:/bin/sh")
    for name in ("grep", "cut"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    script = parts(user_data())["text/x-shellscript"].replace(
        "/etc/ssh/ssh_host_ed25519_key.pub", str(tools / "host_key.pub")
    )

    assert run(script, tools) == []


def test_r7_only_the_pinned_host_key_is_installed_and_only_the_login_key_let_in() -> None:
    text = parts(user_data(user="ec2-user"))["text/cloud-config"]
    header, _, body = text.partition("\n")
    assert header == "#cloud-config"
    assert json.loads(body) == {
        "user": {"name": "ec2-user"},
        "ssh_authorized_keys": [f"{LOGIN.public_key} epochcast"],
        "ssh_deletekeys": True,
        "ssh_keys": {"ed25519_private": HOST.private_key, "ed25519_public": HOST.public_key},
        "ssh_pwauth": False,
        "disable_root": True,
    }
    assert LOGIN.private_key.encode() not in user_data()


def test_r2_same_arguments_give_the_same_bytes_below_the_limit_of_ec2() -> None:
    assert user_data() == user_data()
    assert user_data(71) != user_data()
    assert len(user_data(1_000_000)) < MAXIMUM_BYTES / 4
    with pytest.raises(ValueError, match="EC2 takes 16384"):
        user_data(user="u" * MAXIMUM_BYTES)
