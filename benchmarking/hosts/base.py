"""What a job needs from the place where its probe runs.

A host never keeps anything in memory between calls: each call may come from another process.
What it needs to find its things again it derives from the job's id, or puts into ``state``, a
JSON object that the job keeps. Every call is idempotent and takes less than a minute; none is
made inside a database transaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

HostState = dict[str, Any]

PLAN_FILE = "plan.json"
PROBE_FILE = "probe.py"
"""What a job puts into its folder: the probe, and the plan for its standard input."""


class ProcessStatus(StrEnum):
    """What became of the probe."""

    NOT_STARTED = "not_started"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """The state of a probe; ``exit_code`` is ``None`` where it ended without leaving one.

    ``errors`` is the end of what it wrote to its standard error; ``is_interrupted`` says that
    the cloud takes the machine away (a spot notice) and the probe was told to end;
    ``is_disk_full`` that it ended badly on a disk without room for what it printed.
    """

    status: ProcessStatus
    exit_code: int | None = None
    errors: str = ""
    is_interrupted: bool = False
    is_disk_full: bool = False


class HostFault(StrEnum):
    """Why a host cannot do what a job needs; each has an end of its own in ``jobs.reasons``."""

    CAPACITY = "capacity"
    QUOTA = "quota"
    LIMIT = "limit"
    CONFIGURATION = "configuration"
    CREDENTIALS = "credentials"
    LAUNCH_BUG = "launch_bug"
    LAUNCH_LOST = "launch_lost"
    HOST_KEY = "host_key"
    LOGIN = "login"
    SETUP = "setup"
    DISK_FULL = "disk_full"
    RETIRED = "retired"


class HostFaultError(Exception):
    """The host will not do it, and trying again at once does not help.

    ``message`` tells the operator what was tried and what the other side said, verbatim.
    """

    def __init__(self, fault: HostFault, message: str) -> None:
        super().__init__(message)
        self.fault = fault
        self.message = message


class HostUnavailableError(Exception):
    """The host cannot be reached right now; the step is tried again later."""


@dataclass(slots=True)
class HostJob:
    """The part of a job that a host sees."""

    id: uuid.UUID
    state: HostState = field(default_factory=dict)


class Host(Protocol):
    """A place where one probe runs, detached from whoever started it."""

    def acquire(self, job: HostJob) -> bool:
        """Ask for the place; true once it is there."""
        ...

    def is_ready(self, job: HostJob) -> bool:
        """Whether files can be put there and programs started."""
        ...

    def put(self, job: HostJob, files: Mapping[str, bytes]) -> None:
        """Write files by name into the job's folder there."""
        ...

    def start(self, job: HostJob) -> None:
        """Start the probe of the folder on its plan, unless it was started before."""
        ...

    def poll(self, job: HostJob) -> ProcessReport:
        """Whether the probe runs, and how it ended."""
        ...

    def fetch(self, job: HostJob, offset: int, maximum_bytes: int) -> bytes:
        """What the probe has printed from byte ``offset`` on, with a whole line if there is one."""
        ...

    def stop(self, job: HostJob, *, force: bool) -> None:
        """Ask the probe to end after the timing under way, or end it at once."""
        ...

    def release(self, job: HostJob) -> bool:
        """Give the place back; true once nothing runs or costs money there any more."""
        ...
