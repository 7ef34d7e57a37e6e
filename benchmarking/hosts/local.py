"""This very machine: the probe is a process of its own session that outlives its starter.

The folder ``runs/<job>`` of the installation's working data holds everything: ``plan.json``,
``probe.py``, ``process`` (pid, boot and start time), ``results.jsonl``, ``errors.txt`` and
``exit_code``. ``process`` is created exclusively by the started shell itself, so that of two
starts one gives up, and none is forgotten when the starter dies in between.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarking.hosts.base import (
    PLAN_FILE,
    PROBE_FILE,
    HostJob,
    HostUnavailableError,
    ProcessReport,
    ProcessStatus,
)

RESULTS_FILE = "results.jsonl"
_PROCESS_FILE = "process"
_NODE_FILE = "node"
_ERRORS_FILE = "errors.txt"
_EXIT_CODE_FILE = "exit_code"
# In the process file in place of a pid: the place was given back before the probe was started.
_NEVER_STARTED = "released\n"
_SHOWN_ERROR_BYTES = 2000
_SHELL_START_SECONDS = 60

# The shell waits for the probe to keep its exit code; a signal to the group ends the probe
# only, since a trapped signal is not ignored by the child. Field 22 of /proc/PID/stat is the
# start time: together with the boot it tells a recycled pid from the process itself.
_LAUNCHER = """
set -C
printf '%s %s\\n%s\\n' "$$" "$(cat /proc/sys/kernel/random/boot_id)" "$(cat /proc/$$/stat)" \
    > {process} || exit 73
set +C
trap : TERM INT HUP
{command} < {plan} >> {results} 2>> {errors}
printf '%s\\n' "$?" > {exit_code}.partial && mv {exit_code}.partial {exit_code}
"""


@dataclass(frozen=True, slots=True)
class _ProcessIdentity:
    """What tells a process from another that got the same pid later."""

    pid: int
    boot_id: str
    start_ticks: int


class LocalHost:
    """Runs probes under ``runs_folder`` with a Python interpreter that has torch.

    Parameters
    ----------
    runs_folder
        One folder per job is made in it.
    command
        The program that reads a plan from its standard input, by default the job's copy of the
        probe under this interpreter.
    clock
        Seconds since the epoch; replaced by tests.
    """

    def __init__(
        self,
        runs_folder: Path,
        command: Sequence[str] = (sys.executable, PROBE_FILE),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.runs_folder = runs_folder
        self.command = tuple(command)
        self._clock = clock

    def folder(self, job: HostJob) -> Path:
        """Where everything of this job lies."""
        return self.runs_folder / str(job.id)

    def acquire(self, job: HostJob) -> bool:
        """Claim the job for this computer."""
        job.state.setdefault("node", self._node())
        self._check_node(job)
        self.folder(job).mkdir(parents=True, exist_ok=True)
        return True

    def is_ready(self, job: HostJob) -> bool:
        """Always, where the job was acquired."""
        self._check_node(job)
        return True

    def put(self, job: HostJob, files: Mapping[str, bytes]) -> None:
        """Write files by name; each appears whole or not at all."""
        self._check_node(job)
        for name, content in files.items():
            path = self.folder(job) / name
            partial = path.with_name(path.name + ".partial")
            partial.write_bytes(content)
            partial.replace(path)

    def start(self, job: HostJob) -> None:
        """Start the probe in a session of its own, unless it was started before."""
        self._check_node(job)
        if self._process_text(job):
            return
        script = _LAUNCHER.format(
            command=shlex.join(self.command),
            process=_PROCESS_FILE,
            plan=PLAN_FILE,
            results=RESULTS_FILE,
            errors=_ERRORS_FILE,
            exit_code=_EXIT_CODE_FILE,
        )
        subprocess.Popen(
            ["/bin/sh", "-c", script],
            cwd=self.folder(job),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            close_fds=True,
        )

    def poll(self, job: HostJob) -> ProcessReport:
        """Whether the probe runs; its exit code is what the shell wrote down."""
        self._check_node(job)
        errors = self._tail(job, _ERRORS_FILE)
        exit_code = self._exit_code(job)
        if exit_code is not None:
            return ProcessReport(ProcessStatus.ENDED, exit_code, errors)
        text = self._process_text(job)
        if not text or text == _NEVER_STARTED:
            return ProcessReport(ProcessStatus.NOT_STARTED, None, errors)
        identity = _parse_identity(text)
        if identity is not None and _is_alive(identity):
            return ProcessReport(ProcessStatus.RUNNING, None, errors)
        # It may have ended between the two looks.
        return ProcessReport(ProcessStatus.ENDED, self._exit_code(job), errors)

    def fetch(self, job: HostJob, offset: int, maximum_bytes: int) -> bytes:
        """What the probe has printed from byte ``offset`` on; nothing if it has not begun."""
        self._check_node(job)
        try:
            with (self.folder(job) / RESULTS_FILE).open("rb") as file:
                file.seek(offset)
                return file.read(maximum_bytes)
        except FileNotFoundError:
            return b""

    def stop(self, job: HostJob, *, force: bool) -> None:
        """Signal the process group of the probe if it is still the one that was started."""
        self._check_node(job)
        identity = _parse_identity(self._process_text(job))
        if identity is None or not _is_alive(identity):
            return
        try:
            os.killpg(identity.pid, signal.SIGKILL if force else signal.SIGTERM)
        except ProcessLookupError:
            return

    def release(self, job: HostJob) -> bool:
        """True once no probe of the job runs or can be started any more; the folder stays."""
        self._check_node(job)
        self.folder(job).mkdir(parents=True, exist_ok=True)
        path = self.folder(job) / _PROCESS_FILE
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(_NEVER_STARTED)
            return True
        except FileExistsError:
            if not _read(path):
                # A shell is about to write its pid, or died before it could.
                return self._clock() - path.stat().st_mtime > _SHELL_START_SECONDS
            return self.poll(job).status is not ProcessStatus.RUNNING

    def _check_node(self, job: HostJob) -> None:
        node = self._node()
        owner = job.state.get("node", node)
        if owner != node:
            raise HostUnavailableError(f"this job runs on {owner}, not here on {node}")

    def _node(self) -> str:
        """A name that this folder keeps: a host name may change with every container."""
        path = self.runs_folder / _NODE_FILE
        if not (name := _read(path).strip()):
            self.runs_folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f"{_NODE_FILE}.{uuid.uuid4()}")
            partial.write_text(f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}", encoding="utf-8")
            try:
                # Of two processes that find no name, the first one's stays.
                path.hardlink_to(partial)
            except FileExistsError:
                pass
            finally:
                partial.unlink()
            name = _read(path).strip()
        return name

    def _process_text(self, job: HostJob) -> str:
        return _read(self.folder(job) / _PROCESS_FILE)

    def _exit_code(self, job: HostJob) -> int | None:
        text = _read(self.folder(job) / _EXIT_CODE_FILE).strip()
        return int(text) if text.isdecimal() else None

    def _tail(self, job: HostJob, name: str) -> str:
        try:
            with (self.folder(job) / name).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _SHOWN_ERROR_BYTES))
                return file.read().decode(errors="replace").strip()
        except FileNotFoundError:
            return ""


def _read(path: Path) -> str:
    """The text of a file, empty where it is not there (a process may end while it is read)."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _parse_identity(text: str) -> _ProcessIdentity | None:
    lines = text.splitlines()
    if len(lines) < 2 or " " not in lines[0]:
        return None
    pid, boot_id = lines[0].split(" ", 1)
    start_ticks = _start_ticks(lines[1])
    if start_ticks is None or not pid.isdecimal():
        return None
    return _ProcessIdentity(int(pid), boot_id, start_ticks)


def _start_ticks(stat: str) -> int | None:
    """Field 22 of a ``stat`` line; the name in field 2 may hold spaces and brackets."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 and fields[19].isdecimal() else None


def _is_alive(identity: _ProcessIdentity) -> bool:
    """Whether the shell, or the probe that it left behind, still runs."""
    if _read(Path("/proc/sys/kernel/random/boot_id")).strip() != identity.boot_id:
        return False
    stat = _read(Path(f"/proc/{identity.pid}/stat"))
    if stat:
        if _start_ticks(stat) != identity.start_ticks:
            return False
        # A zombie has ended; its starter has not asked yet.
        if _state_and_group(stat)[0] != "Z":
            return True
    # No pid is given out again while a process group has its number, so this group is ours.
    return any(
        group == identity.pid and state != "Z"
        for state, group in map(_state_and_group, map(_read, Path("/proc").glob("[0-9]*/stat")))
    )


def _state_and_group(stat: str) -> tuple[str, int]:
    fields = stat.rpartition(")")[2].split()
    return (fields[0], int(fields[2])) if len(fields) > 2 else ("Z", 0)
