"""What a job does when its host says that it will not, or does not answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NoReturn

from django.conf import settings

from benchmarking.hosts.base import HostFault, HostFaultError
from benchmarking.jobs.budget import LimitReachedError
from benchmarking.jobs.deadlines import LONGEST_QUEUE_TIME
from benchmarking.jobs.lifecycle import State
from benchmarking.jobs.reasons import Reason
from benchmarking.jobs.step import Step

REASONS_OF_FAULTS: Mapping[HostFault, Reason] = {
    HostFault.CAPACITY: Reason.NO_CAPACITY,
    HostFault.QUOTA: Reason.QUOTA,
    HostFault.LIMIT: Reason.LIMIT,
    HostFault.CONFIGURATION: Reason.CONFIGURATION,
    HostFault.CREDENTIALS: Reason.CREDENTIALS,
    HostFault.LAUNCH_BUG: Reason.LAUNCH_BUG,
    HostFault.LAUNCH_LOST: Reason.INSTANCE_LOST,
    HostFault.HOST_KEY: Reason.HOST_KEY_MISMATCH,
    HostFault.LOGIN: Reason.LOGIN_REFUSED,
    HostFault.SETUP: Reason.SETUP_FAILED,
    HostFault.DISK_FULL: Reason.DISK_FULL,
    HostFault.RETIRED: Reason.MACHINE_RETIRED,
}

# Where a host that answers nothing has a deadline of its own; elsewhere losing the connection is
# not losing the run, and the job's deadline counts.
_REASONS_OF_SILENCE: Mapping[State, Reason] = {
    State.LAUNCHING: Reason.LAUNCH_TIMEOUT,
    State.BOOTING: Reason.BOOT_TIMEOUT,
}

_CAPACITY_BACK_OFF = (timedelta(minutes=5), timedelta(minutes=60))
_LIMIT_BACK_OFF = (timedelta(minutes=1), timedelta(minutes=10))


class RefusingHost:
    """Takes the place of a host that cannot be made, and refuses everything for that reason."""

    def __init__(self, error: HostFaultError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        """Any call of the protocol."""

        def refuse(*args: Any, **kwargs: Any) -> NoReturn:
            raise self._error

        return refuse


def refused(step: Step, error: HostFaultError) -> float:
    """Wait for capacity or room where that helps, else end the job for the fault's reason."""
    is_launching = step.job.state in (State.LAUNCHING, State.WAITING_CAPACITY)
    if is_launching and error.fault is HostFault.CAPACITY:
        return wait_for_capacity(step, error.message)
    if is_launching and isinstance(error, LimitReachedError) and error.may_wait:
        return wait_for_room(step, error.message)
    return step.clean(REASONS_OF_FAULTS[error.fault], error.message)


def silent(step: Step, message: str) -> float:
    """Wait for a host that does not answer, until what it was asked for is overdue."""
    reason = _REASONS_OF_SILENCE.get(State(step.job.state))
    if step.is_overdue:
        return step.clean(Reason.DEADLINE, message)
    if reason is not None and step.is_state_overdue:
        return step.clean(reason, message)
    return 3 * step.poll_seconds


def wait_for_capacity(step: Step, message: str) -> float:
    """Try again in 5 to 60 minutes, for as many hours as the settings allow."""
    limit = timedelta(hours=settings.BENCHMARK_CAPACITY_HOURS)
    return _wait(step, "capacity", message, limit, _CAPACITY_BACK_OFF)


def wait_for_room(step: Step, message: str) -> float:
    """Keep the place in the line until other instances have ended."""
    return _wait(step, "limit", message, LONGEST_QUEUE_TIME, _LIMIT_BACK_OFF)


def _wait(
    step: Step,
    kind: str,
    message: str,
    limit: timedelta,
    back_off: tuple[timedelta, timedelta],
) -> float:
    """Keep what is waited for, since when and how often; it counts over all tries of the job."""
    waiting = step.host_job.state.get("waiting", {})
    if waiting.get("kind") != kind:
        waiting = {"kind": kind, "tries": 0, "until": (step.now + limit).isoformat()}
    tries = waiting["tries"] + 1
    until = datetime.fromisoformat(waiting["until"])
    step.host_job.state["waiting"] = {**waiting, "tries": tries, "message": message}
    if step.now >= until:
        return give_up_waiting(step)
    shortest, longest = back_off
    # Jittered, so that jobs refused together do not come back together.
    delay = min(shortest * 2 ** (tries - 1), longest) * random.uniform(0.8, 1.0)
    delay = min(max(delay, shortest), until - step.now)
    step.move(
        State.WAITING_CAPACITY,
        message=f"{message} Next try in {_minutes(delay)}.",
        changes={"state_deadline": until, "deadline": until + LONGEST_QUEUE_TIME},
    )
    return delay.total_seconds()


def give_up_waiting(step: Step) -> float:
    """End a job that has waited for as long as it may."""
    waiting = step.host_job.state["waiting"]
    reason = Reason.NO_CAPACITY if waiting["kind"] == "capacity" else Reason.LIMIT
    tries = waiting["tries"]
    times = "once" if tries == 1 else f"{tries} times"
    return step.clean(reason, f"{waiting['message']} Tried {times}.")


def _minutes(delay: timedelta) -> str:
    minutes = round(delay / timedelta(minutes=1))
    return "a minute" if minutes <= 1 else f"{minutes} minutes"
