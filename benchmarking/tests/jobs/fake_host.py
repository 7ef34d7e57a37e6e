"""A host in memory whose probe a test plays, and that can die at any call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchmarking.hosts.base import (
    HostFaultError,
    HostJob,
    HostUnavailableError,
    ProcessReport,
    ProcessStatus,
)


class ProcessDeath(BaseException):
    """The worker is gone at this point: nothing of it runs any more, not even an except."""


class FakeHost:
    """Follows ``hosts.base.Host``.

    ``die_at`` names a call, as ``"before start"`` or ``"after start"``, at which the worker dies
    once; ``failures`` counts down the times that every call raises; ``faults`` holds what a call
    refuses for.
    """

    def __init__(self) -> None:
        self.output = b""
        self.report = ProcessReport(ProcessStatus.NOT_STARTED)
        self.files: dict[str, bytes] = {}
        self.starts = 0
        self.stops: list[bool] = []
        self.calls: list[str] = []
        self.is_released = False
        self.is_acquirable = True
        self.obeys_stop = True
        self.die_at = ""
        self.failures = 0
        self.is_away = False
        self.faults: dict[str, HostFaultError] = {}

    def say(self, data: bytes) -> None:
        """Let the probe print."""
        self.output += data

    def end(self, exit_code: int | None = 0, errors: str = "") -> None:
        """Let the probe end."""
        self.report = ProcessReport(ProcessStatus.ENDED, exit_code, errors)

    def interrupt(self) -> None:
        """Let the cloud take the machine away; the probe was told to end."""
        self.report = replace(self.report, is_interrupted=True)

    @property
    def is_running(self) -> bool:
        return self.report.status is ProcessStatus.RUNNING

    def _enter(self, name: str) -> None:
        self.calls.append(name)
        self._die(f"before {name}")
        if self.is_away:
            raise HostUnavailableError("nobody answers")
        if name in self.faults:
            raise self.faults[name]
        if self.failures:
            self.failures -= 1
            raise RuntimeError(f"{name} went wrong")

    def _die(self, point: str) -> None:
        if self.die_at == point:
            self.die_at = ""
            raise ProcessDeath(point)

    def acquire(self, job: HostJob) -> bool:
        self._enter("acquire")
        if self.is_acquirable:
            job.state["place"] = "fake"
        self._die("after acquire")
        return self.is_acquirable

    def is_ready(self, job: HostJob) -> bool:
        self._enter("is_ready")
        self._die("after is_ready")
        return True

    def put(self, job: HostJob, files: Mapping[str, bytes]) -> None:
        self._enter("put")
        self.files |= files
        self._die("after put")

    def start(self, job: HostJob) -> None:
        self._enter("start")
        if self.report.status is ProcessStatus.NOT_STARTED and not self.is_released:
            self.starts += 1
            self.report = ProcessReport(ProcessStatus.RUNNING)
        self._die("after start")

    def poll(self, job: HostJob) -> ProcessReport:
        self._enter("poll")
        self._die("after poll")
        return self.report

    def fetch(self, job: HostJob, offset: int, maximum_bytes: int) -> bytes:
        self._enter("fetch")
        self._die("after fetch")
        return self.output[offset : offset + maximum_bytes]

    def stop(self, job: HostJob, *, force: bool) -> None:
        self._enter("stop")
        self.stops.append(force)
        if self.obeys_stop or force:
            self.end(None if force else 0)
        self._die("after stop")

    def release(self, job: HostJob) -> bool:
        self._enter("release")
        self.is_released = not self.is_running
        self._die("after release")
        return self.is_released
