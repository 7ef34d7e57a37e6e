"""Machines that answer over SSH: a real OpenSSH server each, on a loopback address of its own.

A machine has a home folder, a host key, one accepted login key and a ``python3`` of its own, and
writes down every command that it runs. Its SSH server can hang, die, come back with another host
key, or lose its connections, while the programs started on it go on.
"""

from __future__ import annotations

import contextlib
import email
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from benchmarking.hosts.keys import KeyPair, make_key_pair
from benchmarking.tests.ports import free_port

FAKE_PROBE = Path(__file__).with_name("fake_probe.py")
WAIT_SECONDS = 60.0
_SSHD = next(
    (path for path in ("/usr/sbin/sshd", "/usr/local/sbin/sshd") if Path(path).exists()), "sshd"
)
_MARK = "EPOCHCAST_FAKE_MACHINE"

# StrictModes would refuse files below a world-writable /tmp. The login shell of whoever runs the
# tests finds no start-up files in this home.
_CONFIGURATION = """
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
ForceCommand /bin/sh {folder}/session
SetEnv HOME={folder}/home
PidFile none
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
MaxStartups 100
Subsystem sftp internal-sftp
"""

_SESSION = """
export HOME={home} PATH={folder}/bin:$PATH {mark}={folder} {environment}
cd "$HOME" || exit 1
printf '%s\\0' "$SSH_ORIGINAL_COMMAND" >> {folder}/commands
{file_limit}
{login_script}
exec {shell} -c "$SSH_ORIGINAL_COMMAND"
"""

_PYTHON = """#!/bin/sh
{probe}
exec {python} "$@"
"""


class FakeMachine:
    """One computer that answers over SSH; nothing of it is left after ``stop``.

    Parameters
    ----------
    folder
        Made here: keys, configuration, log, and the home folder ``home``.
    address, port
        Where it listens; each machine should have an address of its own. Without a port, a free
        one is taken.
    host_keys
        Its host key, by default a fresh one.
    authorized_key
        The public key that may log in, by default that of ``login_keys``, a fresh pair.
    python
        The interpreter behind the ``python3`` on its search path; ``None``: there is none.
    probe
        A program that takes the place of ``probe.py`` there, by default the fake one without
        torch; ``None``: the probe that was put there runs.
    shell
        What runs the commands, whatever the user's login shell here is.
    disk_kib
        The size of its disk: a tmpfs where this process may mount one, else (see
        ``has_own_disk``) the size that one file may have.
    environment
        Variables of every program there, such as ``FAKE_PROBE_HOLD_AFTER``.
    login_script
        What the login shell runs before each command, such as a greeting.
    """

    def __init__(
        self,
        folder: Path,
        *,
        address: str = "127.0.0.2",
        port: int | None = None,
        host_keys: KeyPair | None = None,
        authorized_key: str | None = None,
        python: str | None = sys.executable,
        probe: Path | None = FAKE_PROBE,
        shell: str = "/bin/dash",
        disk_kib: int | None = None,
        environment: Mapping[str, str] | None = None,
        login_script: str = "",
    ) -> None:
        self.folder = folder.resolve()
        self.home = self.folder / "home"
        self.address = address
        self.port = port or free_port(address)
        self.user = _user_name()
        self.host_keys = host_keys or make_key_pair()
        self.login_keys = make_key_pair()
        self.authorized_key = authorized_key or self.login_keys.public_key
        self.python = python
        self.probe = probe
        self.shell = shell
        self.disk_kib = disk_kib
        self.environment = dict(environment or {})
        self.login_script = login_script
        self.has_own_disk = False
        self._server: subprocess.Popen[bytes] | None = None

    @classmethod
    def from_user_data(cls, folder: Path, user_data: bytes, **values: Any) -> FakeMachine:
        """A machine whose host key and login key are those that a cloud was asked to give it."""
        parts = email.message_from_bytes(user_data).walk()
        text = next(part for part in parts if part.get_content_subtype() == "cloud-config")
        configuration = yaml.safe_load(text.get_payload(decode=True))
        (authorized_key,) = configuration["ssh_authorized_keys"]
        host_keys = configuration["ssh_keys"]
        return cls(
            folder,
            host_keys=KeyPair(host_keys["ed25519_private"], host_keys["ed25519_public"]),
            authorized_key=authorized_key,
            **values,
        )

    def __enter__(self) -> FakeMachine:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop it."""
        self.stop()

    def target_values(self, **changes: Any) -> dict[str, Any]:
        """The arguments of an ``SshTarget`` of this machine; ``changes`` replaces some."""
        values = {
            "address": self.address,
            "port": self.port,
            "user": self.user,
            "login_private_key": self.login_keys.private_key,
            "host_public_key": self.host_keys.public_key,
        }
        return {**values, **changes}

    def start(self) -> None:
        """Switch it on, or after ``kill`` start its SSH server again; what it ran goes on."""
        assert self._server is None, "it runs already"
        self.home.mkdir(parents=True, exist_ok=True)
        self._mount_disk()
        self._write_files()
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        with (self.folder / "sshd.log").open("ab") as log:
            self._server = subprocess.Popen(
                [_SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._wait_until(self._listens)

    def stop(self) -> None:
        """Switch it off: SSH server and every program on it end at once, as in a termination."""
        self.kill()
        while pids := self._marked():
            _signal(pids, signal.SIGKILL)
            time.sleep(0.002)
        self._unmount_disk()

    def kill(self) -> None:
        """End the SSH server and its connections; programs started on the machine go on."""
        if self._server is None:
            return
        _signal(self._server_processes(), signal.SIGKILL)
        self._server.wait()
        self._server = None

    def hang(self) -> None:
        """Let nobody get an answer, though connections are accepted, until ``resume``."""
        _signal(self._server_processes(), signal.SIGSTOP)

    def resume(self) -> None:
        """Answer again after ``hang``."""
        _signal(self._server_processes(), signal.SIGCONT)

    def drop_connections(self) -> None:
        """Cut every connection; new ones are accepted, and what runs on the machine goes on."""
        assert self._server is not None
        _signal(self._server_processes() - {self._server.pid}, signal.SIGKILL)

    def swap_host_key(self, host_keys: KeyPair | None = None) -> KeyPair:
        """Answer with another host key from now on; ``target_values`` keeps the old one."""
        swapped = host_keys or make_key_pair()
        self.kill()
        kept, self.host_keys = self.host_keys, swapped
        try:
            self.start()
        finally:
            self.host_keys = kept
        return swapped

    def run_folder(self, job_id: object) -> Path:
        """Where the files of a job lie on this machine."""
        return self.home / "epochcast" / str(job_id)

    @property
    def commands(self) -> list[str]:
        """Every command that somebody ran there over SSH, first to last."""
        path = self.folder / "commands"
        return path.read_text(errors="replace").split("\0")[:-1] if path.exists() else []

    @property
    def log(self) -> str:
        """What the SSH server wrote down."""
        return (self.folder / "sshd.log").read_text(errors="replace")

    @property
    def program_count(self) -> int:
        """How many processes run there, the SSH server itself left out."""
        return len(self._marked())

    def _write_files(self) -> None:
        _write_private(self.folder / "host_key", self.host_keys.private_key)
        _write_private(self.folder / "authorized_keys", self.authorized_key + "\n")
        _write_private(
            self.folder / "sshd_config",
            _CONFIGURATION.format(port=self.port, address=self.address, folder=self.folder),
        )
        limited = self.disk_kib is not None and not self.has_own_disk
        _write_private(
            self.folder / "session",
            _SESSION.format(
                home=shlex.quote(str(self.home)),
                folder=shlex.quote(str(self.folder)),
                mark=_MARK,
                shell=self.shell,
                environment=" ".join(
                    f"{name}={shlex.quote(value)}" for name, value in self.environment.items()
                ),
                # A shell counts in blocks of 512 bytes; the signal would kill without a word.
                login_script=self.login_script,
                file_limit=f"trap '' XFSZ; ulimit -f {2 * self.disk_kib}" if limited else "",
            ),
        )
        programs = self.folder / "bin"
        shutil.rmtree(programs, ignore_errors=True)
        programs.mkdir()
        if self.python is not None:
            _write_program(programs / "python3", self._python_script())

    def _python_script(self) -> str:
        probe = ""
        if self.probe is not None:
            replaced = shlex.quote(str(self.probe.resolve()))
            probe = f'[ "$1" = probe.py ] && {{ shift; set -- {replaced} "$@"; }}'
        return _PYTHON.format(python=shlex.quote(str(self.python)), probe=probe)

    def _mount_disk(self) -> None:
        if self.disk_kib is None or self.has_own_disk or os.geteuid() != 0:
            return
        size = f"size={self.disk_kib}k"
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self.home)],
            capture_output=True,
            check=False,
        )
        self.has_own_disk = mounted.returncode == 0

    def _unmount_disk(self) -> None:
        if self.has_own_disk:
            subprocess.run(["umount", "--lazy", str(self.home)], check=True)
            self.has_own_disk = False

    def _listens(self) -> bool:
        assert self._server is not None
        assert self._server.poll() is None, self.log
        try:
            socket.create_connection((self.address, self.port), timeout=1.0).close()
        except ConnectionRefusedError:
            return False
        return True

    def _server_processes(self) -> set[int]:
        """The listener, and the processes of its connections without the programs they run."""
        assert self._server is not None
        children = _children()
        found, unseen = set(), [self._server.pid]
        while unseen:
            pid = unseen.pop()
            found.add(pid)
            unseen += [child for child in children.get(pid, []) if _name(child) == "sshd"]
        return found

    def _marked(self) -> set[int]:
        mark = f"{_MARK}={self.folder}".encode()
        return {
            pid
            for pid in _processes()
            if mark in _read(pid, "environ").split(b"\0") and pid != os.getpid()
        }

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + WAIT_SECONDS
        while not condition():
            assert time.monotonic() < end, self.log
            time.sleep(0.002)


def _user_name() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _processes() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").glob("[0-9]*"))


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _name(pid: int) -> str:
    return _read(pid, "comm").decode(errors="replace").strip()


def _children() -> dict[int, list[int]]:
    """The processes of each parent; a zombie has ended."""
    children: dict[int, list[int]] = {}
    for pid in _processes():
        fields = _read(pid, "stat").rpartition(b")")[2].split()
        if len(fields) > 1 and fields[0] != b"Z":
            children.setdefault(int(fields[1]), []).append(pid)
    return children


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
