"""What every host has in common: the shell that runs a probe, and what its files say.

The folder of a job holds ``plan.json``, ``probe.py``, ``process`` (pid, boot and start time),
``results.jsonl``, ``errors.txt`` and ``exit_code``. ``process`` is created exclusively by the
started shell itself, so that of two starts one gives up, and none is forgotten when the starter
dies in between.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarking.hosts.base import PLAN_FILE, ProcessReport, ProcessStatus

RESULTS_FILE = "results.jsonl"
PROCESS_FILE = "process"
ERRORS_FILE = "errors.txt"
EXIT_CODE_FILE = "exit_code"
NEVER_STARTED = "released"
"""In the process file in place of a pid: the place was given back before a probe was started."""
SHOWN_ERROR_BYTES = 2000
# A shell writes its pid right after it has made the file; one that has not by then is dead.
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


def launch_script(command: Sequence[str]) -> str:
    """What a shell that leads a session of its own runs in the folder of a job."""
    return _LAUNCHER.format(
        command=shlex.join(command),
        process=PROCESS_FILE,
        plan=PLAN_FILE,
        results=RESULTS_FILE,
        errors=ERRORS_FILE,
        exit_code=EXIT_CODE_FILE,
    )


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """What tells a process from another that got the same pid later."""

    pid: int
    boot_id: str
    start_ticks: int


@dataclass(frozen=True, slots=True)
class Look:
    """What was found in the folder of a job, the exit code after everything else.

    Parameters
    ----------
    process
        The text of the process file, empty where there is none or nothing in it yet.
    process_age_seconds
        Since the process file was written; ``None`` where there is none.
    boot_id
        Of the computer now.
    own_stat
        ``/proc/PID/stat`` of the pid in the process file, empty where it has ended.
    all_stats
        The same of all processes; asked for only when ``own_stat`` does not decide.
    """

    process: str
    process_age_seconds: float | None
    boot_id: str
    own_stat: str
    all_stats: Callable[[], Iterable[str]]
    exit_code: str
    errors: str
    is_interrupted: bool = False

    def report(self) -> ProcessReport:
        """What became of the probe."""
        code = self.exit_code.strip()
        exit_code = int(code) if code.isdecimal() else None
        return ProcessReport(self._status(exit_code), exit_code, self.errors, self.is_interrupted)

    def running(self) -> ProcessIdentity | None:
        """The probe's shell, if it or the probe that it left behind still runs."""
        identity = parse_identity(self.process)
        return identity if identity is not None and self._is_alive(identity) else None

    def may_release(self) -> bool:
        """Whether nothing runs or can be started, after a try to make the process file."""
        if self.process_age_seconds is None:
            # It cannot be made, and without it no launcher goes on.
            return True
        if not self.process.strip():
            return self.process_age_seconds > _SHELL_START_SECONDS
        return self.report().status is not ProcessStatus.RUNNING

    def _status(self, exit_code: int | None) -> ProcessStatus:
        if exit_code is not None:
            return ProcessStatus.ENDED
        if self.process.strip() in ("", NEVER_STARTED):
            return ProcessStatus.NOT_STARTED
        return ProcessStatus.RUNNING if self.running() else ProcessStatus.ENDED

    def _is_alive(self, identity: ProcessIdentity) -> bool:
        if self.boot_id.strip() != identity.boot_id:
            return False
        if self.own_stat:
            if _start_ticks(self.own_stat) != identity.start_ticks:
                return False
            # A zombie has ended; its starter has not asked yet.
            if _state_and_group(self.own_stat)[0] != "Z":
                return True
        # No pid is given out again while a process group has its number, so this group is ours.
        return any(
            group == identity.pid and state != "Z"
            for state, group in map(_state_and_group, self.all_stats())
        )


def parse_identity(text: str) -> ProcessIdentity | None:
    """Who is in a process file; ``None`` where nobody is."""
    lines = text.splitlines()
    if len(lines) < 2 or " " not in lines[0]:
        return None
    pid, boot_id = lines[0].split(" ", 1)
    start_ticks = _start_ticks(lines[1])
    if start_ticks is None or not pid.isdecimal():
        return None
    return ProcessIdentity(int(pid), boot_id, start_ticks)


def _start_ticks(stat: str) -> int | None:
    """Field 22 of a ``stat`` line; the name in field 2 may hold spaces and brackets."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 and fields[19].isdecimal() else None


def _state_and_group(stat: str) -> tuple[str, int]:
    fields = stat.rpartition(")")[2].split()
    return (fields[0], int(fields[2])) if len(fields) > 2 else ("Z", 0)
