"""Run web server, Celery worker and beat as child processes: ``script/server`` ends here.

The three stop together: on Ctrl-C, on SIGTERM, and when one of them ends on its own.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.utils import get_random_secret_key

from predictor_site.metrics_token import metrics_token
from predictor_site.ports import refuse_taken_port

WEB_PROCESSES = 2
WORKER_PROCESSES = 2
# A task may run for 50 s; after this long it is interrupted, and a sweep finds it again.
STOP_GRACE_SECONDS = 15.0
START_GRACE_SECONDS = 60.0
PR_SET_PDEATHSIG = 1


def ensure_secret_key(folder: Path) -> None:
    """Write ``folder/secret_key`` for this installation, readable by its owner alone, once."""
    try:
        descriptor = os.open(folder / "secret_key", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(get_random_secret_key())


def child_commands(host: str, port: int) -> dict[str, list[str]]:
    """The command line of each child process by its role."""
    bracketed = f"[{host}]" if ":" in host else host
    # Celery advises against root for its pickled messages, and ours are JSON alone.
    no_advice = ["-W", "ignore:You're running the worker with superuser privileges"]
    celery = [sys.executable, *no_advice, "-m", "celery", "--quiet", "--app", "predictor_site"]
    return {
        "web": [
            *(sys.executable, "-m", "gunicorn", "predictor_site.wsgi"),
            *("--bind", f"{bracketed}:{port}", "--workers", str(WEB_PROCESSES)),
            *("--log-level", "warning", "--no-control-socket"),
            # A comparison of as many as one query may hold has an address of some 6 kB.
            *("--limit-request-line", "8190"),
        ],
        "worker": [
            *(*celery, "worker", "--queues", ",".join(settings.QUEUES)),
            *("--concurrency", str(WORKER_PROCESSES), "--loglevel", "warning"),
            # These three need broadcasts, which the filesystem broker does not need to carry.
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ],
        "beat": [*celery, "beat", "--pidfile=", "--loglevel", "warning"],
    }


def _die_with_parent() -> None:
    """Ask Linux to end this child if script/server is killed with no chance to do it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Children:
    """Child processes, each the leader of a session of its own.

    Ctrl-C in a terminal then reaches only this process, which stops them in order, and whatever
    one of them leaves behind can be ended with its group.
    """

    def __init__(self, commands: dict[str, list[str]]) -> None:
        self._processes = {
            role: subprocess.Popen(
                command,
                cwd=settings.BASE_DIR,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
            for role, command in commands.items()
        }

    def first_ended(self) -> str | None:
        """The role of a child that ended, or None while all run."""
        for role, process in self._processes.items():
            if process.poll() is not None:
                return role
        return None

    def exit_code(self, role: str) -> int | None:
        """The exit code of the child in ``role``."""
        return self._processes[role].returncode

    def stop(self, hurry: threading.Event) -> None:
        """End all: SIGTERM, and SIGKILL after the grace period or once ``hurry`` is set."""
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + STOP_GRACE_SECONDS
        while any(process.poll() is None for process in self._processes.values()):
            if hurry.wait(0.1) or time.monotonic() > deadline:
                break
        for process in self._processes.values():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process in self._processes.values():
            process.wait()


def answers(host: str, port: int) -> bool:
    """Whether the site answers ``/livez``."""
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    connection = HTTPConnection(target, port, timeout=2)
    try:
        connection.request("GET", "/livez", headers={"Host": "localhost"})
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def print_welcome(host: str, port: int) -> None:
    """Say where the site is and how to make an admin."""
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    print(
        f"\nEpochcast is ready: {address}\n"
        f"Admin pages: {address}admin/ (make an account with: "
        ".venv/bin/python manage.py createsuperuser)\n"
        "Ctrl-C stops it.",
        flush=True,
    )


def serve(host: str, port: int, roles: Sequence[str]) -> int:
    """Run the children in ``roles`` until told to stop; 0 then, 1 when one ended by itself."""
    stopping, hurry = threading.Event(), threading.Event()

    def stop(signal_number: int, _frame: object) -> None:
        if stopping.is_set():
            hurry.set()
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    commands = child_commands(host, port)
    children = Children({role: commands[role] for role in roles})
    welcome_deadline = time.monotonic() + START_GRACE_SECONDS if "web" in roles else 0.0
    ended = None
    while not stopping.wait(0.2):
        ended = children.first_ended()
        if ended is not None:
            print(
                f"script/server: {ended} ended with code {children.exit_code(ended)}: "
                "stopping the others",
                file=sys.stderr,
            )
            break
        if welcome_deadline and answers(host, port):
            print_welcome(host, port)
            welcome_deadline = 0.0
        elif welcome_deadline and time.monotonic() > welcome_deadline:
            print("script/server: the site does not answer yet; see above", file=sys.stderr)
            welcome_deadline = 0.0
    children.stop(hurry)
    return 1 if ended else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the options, make a secret key where none is set, and serve."""
    parser = argparse.ArgumentParser(prog="script/server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--only", choices=("all", "web", "worker", "beat"), default="all")
    options = parser.parse_args(arguments)
    roles = ("web", "worker", "beat") if options.only == "all" else (options.only,)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "predictor_site.settings")
    try:
        if settings.SECRET_KEY_IS_TEMPORARY and "web" in roles:
            ensure_secret_key(settings.VAR_DIR)
        if "web" in roles:
            # There before the first scrape, for whoever sets that up.
            metrics_token()
    except ImproperlyConfigured as error:
        print(f"script/server: {error}", file=sys.stderr)
        return 2
    if "web" in roles and (code := refuse_taken_port(options.host, options.port)):
        return code
    return serve(options.host, options.port, roles)


if __name__ == "__main__":
    sys.exit(main())
