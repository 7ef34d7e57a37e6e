"""A PostgreSQL and a Redis of a test's own, which it may kill."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psycopg2

from benchmarking.tests.ports import free_port
from benchmarking.tests.processes import die_with_parent

START_SECONDS = 60.0


def missing_programs() -> list[str]:
    """What is not installed of that which the chaos tests start."""
    found = {"redis-server": shutil.which("redis-server"), "initdb": _postgres_program("initdb")}
    return [name for name, path in found.items() if path is None]


class OwnServer:
    """A server program on a free port of 127.0.0.1; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> OwnServer:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it and wait until it answers."""
        assert self._process is None, "it runs already"
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user(),
                preexec_fn=die_with_parent,
            )
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.02)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _answers(self) -> bool:
        raise NotImplementedError

    def _user(self) -> str | int:
        return os.geteuid()


class OwnRedis(OwnServer):
    """Keeps nothing on the disk: killed, it has lost everything."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def _command(self) -> list[str]:
        options = ("--save", "", "--appendonly", "no", "--dir", str(self.folder))
        return ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), *options]

    def _answers(self) -> bool:
        return _is_true(lambda: _ask_redis(self.port) == b"+PONG\r\n")


class OwnPostgres(OwnServer):
    """Run by an unprivileged user, for PostgreSQL refuses root."""

    @property
    def url(self) -> str:
        return f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """See ``OwnServer``; the first time it makes an empty database."""
        data = self.folder / "data"
        if not data.exists():
            if os.geteuid() == 0:
                shutil.chown(self.folder, self._user())
            options = ("--auth", "trust", "--username", "postgres", "--encoding", "UTF8")
            subprocess.run(
                [
                    *(_postgres_program("initdb") or "initdb", "--pgdata", str(data), *options),
                    *("--locale", "C", "--no-sync"),
                ],
                user=self._user(),
                stdout=subprocess.DEVNULL,
                check=True,
            )
        super().start()

    def crash(self) -> None:
        """End it without a goodbye to anybody; what was committed is there after ``start``."""
        self.kill(signal.SIGQUIT)

    def __exit__(self, *exception: object) -> None:
        self.crash()

    def _command(self) -> list[str]:
        return [
            *(_postgres_program("postgres") or "postgres", "-D", str(self.folder / "data")),
            *("-p", str(self.port), "-c", "listen_addresses=127.0.0.1"),
            *("-c", "unix_socket_directories=", "-c", "fsync=off"),
        ]

    def _answers(self) -> bool:
        return _is_true(lambda: _connects(self.url))

    def _user(self) -> str | int:
        if os.geteuid() != 0:
            return os.geteuid()
        names = {entry.pw_name for entry in pwd.getpwall()}
        return "postgres" if "postgres" in names else "nobody"


def _ask_redis(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(100)


def _connects(url: str) -> bool:
    psycopg2.connect(url, connect_timeout=2).close()
    return True


def _is_true(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except (OSError, psycopg2.Error):
        return False


def _postgres_program(name: str) -> str | None:
    """Debian keeps them out of the search path."""
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(installed[-1]) if installed else shutil.which(name)
