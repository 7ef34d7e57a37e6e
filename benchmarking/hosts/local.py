"""This very machine: the probe is a process of its own session that outlives its starter.

The folder ``runs/<job>`` of the installation's working data holds everything, as
``hosts.launcher`` says.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarking.hosts.base import PROBE_FILE, HostJob, HostUnavailableError, ProcessReport
from benchmarking.hosts.launcher import (
    ERRORS_FILE,
    EXIT_CODE_FILE,
    NEVER_STARTED,
    PROCESS_FILE,
    RESULTS_FILE,
    SHOWN_ERROR_BYTES,
    Look,
    launch_script,
    parse_identity,
)
from benchmarking.kept_values import kept_value

_NODE_FILE = "node"


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
        if _read(self.folder(job) / PROCESS_FILE):
            return
        subprocess.Popen(
            ["/bin/sh", "-c", launch_script(self.command)],
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
        return self._look(job).report()

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
        identity = self._look(job).running()
        if identity is None:
            return
        try:
            os.killpg(identity.pid, signal.SIGKILL if force else signal.SIGTERM)
        except ProcessLookupError:
            return

    def release(self, job: HostJob) -> bool:
        """True once no probe of the job runs or can be started any more; the folder stays."""
        self._check_node(job)
        self.folder(job).mkdir(parents=True, exist_ok=True)
        try:
            with (self.folder(job) / PROCESS_FILE).open("x", encoding="utf-8") as file:
                file.write(f"{NEVER_STARTED}\n")
            return True
        except FileExistsError:
            return self._look(job).may_release()

    def _check_node(self, job: HostJob) -> None:
        node = self._node()
        owner = job.state.get("node", node)
        if owner != node:
            raise HostUnavailableError(f"this job runs on {owner}, not here on {node}")

    def _node(self) -> str:
        """A name that this folder keeps: a host name may change with every container."""
        return kept_value(
            self.runs_folder / _NODE_FILE,
            lambda: f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}",
        )

    def _look(self, job: HostJob) -> Look:
        path = self.folder(job) / PROCESS_FILE
        process = _read(path)
        identity = parse_identity(process)
        return Look(
            process=process,
            process_age_seconds=self._clock() - path.stat().st_mtime if path.exists() else None,
            boot_id=_read(Path("/proc/sys/kernel/random/boot_id")),
            own_stat=_read(Path(f"/proc/{identity.pid}/stat")) if identity else "",
            all_stats=lambda: map(_read, Path("/proc").glob("[0-9]*/stat")),
            errors=self._tail(job, ERRORS_FILE),
            exit_code=_read(self.folder(job) / EXIT_CODE_FILE),
        )

    def _tail(self, job: HostJob, name: str) -> str:
        try:
            with (self.folder(job) / name).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - SHOWN_ERROR_BYTES))
                return file.read().decode(errors="replace").strip()
        except FileNotFoundError:
            return ""


def _read(path: Path) -> str:
    """The text of a file, empty where it is not there (a process may end while it is read)."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
