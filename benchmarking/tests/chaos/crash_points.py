"""Where a worker of a chaos test dies: named points before and after each effect of a step.

A process of the tests (``process.py``) wraps the functions named here; the product knows nothing
of it. What is planned for a job lies in a file of its name, which the first process that comes to
that point takes away: each job has one accident.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarking.hosts.base import HostUnavailableError
from benchmarking.hosts.ec2.errors import Ec2Error

KILL = "kill -9"
EXCEPTION = "exception"
LOST_ANSWER = "lost answer"
STOP = "SIGSTOP"

# What a step writes into the database, and the module through which it is called.
WRITES = {
    "take lease": ("benchmarking.jobs.advance", "_take_lease"),
    "intent": ("benchmarking.jobs.instances", "write_intent"),
    "mark asked": ("benchmarking.jobs.instances", "mark_asked"),
    "mark launched": ("benchmarking.jobs.instances", "mark_launched"),
    "mark running": ("benchmarking.jobs.instances", "mark_running"),
    "store lines": ("benchmarking.jobs.collection", "_store"),
    "mark terminating": ("benchmarking.jobs.instances", "mark_terminating"),
    "mark terminated": ("benchmarking.jobs.instances", "mark_terminated"),
    "erase keys": ("benchmarking.jobs.cleaning", "erase_job_secret"),
    "return lease": ("benchmarking.jobs.advance", "_return_lease"),
}
MOVES = ("launching", "booting", "running", "collecting", "cleaning", "succeeded")
EC2_CALLS = ("list_places", "find_image", "ensure_security_group", "run", "find", "terminate")
SSH_CALLS = ("is_ready", "put", "start", "poll", "fetch")


@dataclass(frozen=True)
class Accident:
    """What happens to a job once: ``kind`` at ``when`` ("before" or "after") of ``point``."""

    point: str
    when: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind} {self.when} {self.point}"


def all_accidents() -> list[Accident]:
    """Every point with every accident that can happen there."""
    writes = [*WRITES, *(f"move to {state}" for state in MOVES)]
    calls = [*(f"ec2 {name}" for name in EC2_CALLS), *(f"ssh {name}" for name in SSH_CALLS)]
    return [
        *(
            Accident(point, when, kind)
            for point in (*writes, *calls)
            for when in ("before", "after")
            for kind in (KILL, EXCEPTION)
        ),
        *(Accident(point, "after", LOST_ANSWER) for point in calls),
    ]


def plan_accident(folder: Path, job_id: uuid.UUID, accident: Accident) -> None:
    """Let the job have the accident; to be called before a worker sees the job."""
    (folder / str(job_id)).write_text(json.dumps(asdict(accident)))


def accidents_left(folder: Path) -> list[str]:
    """Those that have not happened."""
    return sorted(str(Accident(**json.loads(path.read_text()))) for path in folder.iterdir())


def sleeper_of(folder: Path, job_id: uuid.UUID) -> int | None:
    """The process that a job's accident has stopped, until it has ended its step after all."""
    path = folder.with_name("sleepers") / str(job_id)
    return int(path.read_text() or 0) or None if path.exists() else None


class CrashPoints:
    """The wrapped functions of this process, which work in the steps of jobs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sleepers = folder.with_name("sleepers")
        self.job_id = ""

    @contextmanager
    def step_of(self, job_id: uuid.UUID) -> Iterator[None]:
        """This process takes a step of that job meanwhile."""
        self.job_id = str(job_id)
        try:
            yield
        finally:
            sleeper = self._sleepers / self.job_id
            if sleeper.exists() and sleeper.read_text() == str(os.getpid()):
                sleeper.unlink()
            self.job_id = ""

    def install(self) -> None:
        """Wrap every function that has a name here."""
        for point, (module_name, name) in WRITES.items():
            self._wrap(importlib.import_module(module_name), name, lambda *args, p=point: p)
        step_class = importlib.import_module("benchmarking.jobs.step").Step
        self._wrap(step_class, "move", lambda step, to, *args: f"move to {to}")
        api_class = importlib.import_module("benchmarking.hosts.ec2.api").Ec2Api
        for name in EC2_CALLS:
            self._wrap(api_class, name, lambda *args, p=f"ec2 {name}": p)
        host_class = importlib.import_module("benchmarking.hosts.ssh").SshHost
        for name in SSH_CALLS:
            self._wrap(host_class, name, lambda *args, p=f"ssh {name}": p)

    def _wrap(self, owner: Any, name: str, point_of: Callable[..., str]) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            point = point_of(*args)
            self._reach(point, "before")
            result = original(*args, **kwargs)
            self._reach(point, "after")
            return result

        setattr(owner, name, wrapped)

    def _reach(self, point: str, when: str) -> None:
        for accident in self._take(point, when):
            if accident.kind == KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            if accident.kind == STOP:
                (self._sleepers / self.job_id).write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGSTOP)
                return
            if accident.kind == EXCEPTION:
                raise RuntimeError(f"played: {accident}")
            if point.startswith("ec2 "):
                raise Ec2Error(
                    "RequestTimeout", f"played: {accident}", region="us-east-1", is_certain=False
                )
            raise HostUnavailableError(f"played: {accident}")

    def _take(self, point: str, when: str) -> Iterator[Accident]:
        path = self._folder / self.job_id
        if not self.job_id or not path.exists():
            return
        accident = Accident(**json.loads(path.read_text()))
        if (accident.point, accident.when) == (point, when):
            path.unlink()
            yield accident
