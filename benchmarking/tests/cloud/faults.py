"""What is to go wrong with the next calls to a played EC2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class PlannedFault:
    """What goes wrong with the next ``times`` calls that fit; ``None``: with all of them."""

    kind: str
    action: str
    times: int | None
    zone: str | None = None
    region: str | None = None
    code: str = ""
    message: str = ""
    status: int = 400
    seconds: float = 0.0


class FaultPlan:
    """Faults in the order in which they were planned; the first that fits a call is used."""

    def __init__(self) -> None:
        self._faults: list[PlannedFault] = []

    def clear_faults(self) -> None:
        """Let nothing go wrong any more."""
        self._faults.clear()

    def plan_error(
        self,
        code: str,
        message: str = "Planned by the test.",
        *,
        action: str = "RunInstances",
        zone: str | None = None,
        region: str | None = None,
        times: int | None = 1,
        status: int | None = None,
    ) -> None:
        """Let calls fail before anything is done; capacity errors are HTTP 500, as with AWS.

        boto3 repeats calls that failed with HTTP 500, so that one such error is not seen.
        """
        if status is None:
            is_servers = code.startswith(("Insufficient", "Internal", "Unavailable"))
            status = 500 if is_servers else 400
        self._plan("error", action, times, zone, region, code=code, message=message, status=status)

    def drop_answer(
        self, *, action: str = "RunInstances", zone: str | None = None, times: int | None = 1
    ) -> None:
        """Cut the connection after the deed is done."""
        self._plan("drop", action, times, zone, None)

    def truncate_answer(self, *, action: str = "RunInstances", times: int | None = 1) -> None:
        """Send half of the answer after the deed is done."""
        self._plan("truncate", action, times, None, None)

    def delay(self, seconds: float, *, action: str = "RunInstances", times: int = 1) -> None:
        """Let calls take longer."""
        self._plan("delay", action, times, None, None, seconds=seconds)

    def _plan(
        self,
        kind: str,
        action: str,
        times: int | None,
        zone: str | None,
        region: str | None,
        **values: Any,
    ) -> None:
        self._faults.append(PlannedFault(kind, action, times, zone, region, **values))

    def _take_fault(
        self, kind: str, action: str, zone: str | None, region: str
    ) -> PlannedFault | None:
        for fault in self._faults:
            if (
                fault.kind == kind
                and fault.action in (action, "*")
                and fault.zone in (None, zone)
                and fault.region in (None, region)
            ):
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times == 0:
                        self._faults.remove(fault)
                return fault
        return None
