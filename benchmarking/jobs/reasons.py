"""Why a job ends, and what that means: its final state, another try, the operator's sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from benchmarking.models import BenchmarkJob

State = BenchmarkJob.State


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a reason means: the final state, whether to try again, a sentence for the operator."""

    final_state: State
    retry: bool
    sentence: str


class Reason(StrEnum):
    """Why a job is cleaned up."""

    COMPLETED = "completed"
    TIME_BUDGET = "time_budget"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    PROBE_REFUSED = "probe_refused"
    PROBE_DIED = "probe_died"
    PROBE_STOPPED = "probe_stopped"
    DEVICE_BROKEN = "device_broken"
    BAD_OUTPUT = "bad_output"
    WRONG_MACHINE = "wrong_machine"
    STEP_FAILED = "step_failed"
    NO_CAPACITY = "no_capacity"
    QUOTA = "quota"
    LIMIT = "limit"
    CONFIGURATION = "configuration"
    CREDENTIALS = "credentials"
    LAUNCH_BUG = "launch_bug"
    INSTANCE_LOST = "instance_lost"
    HOST_KEY_MISMATCH = "host_key_mismatch"
    LOGIN_REFUSED = "login_refused"
    LAUNCH_TIMEOUT = "launch_timeout"
    BOOT_TIMEOUT = "boot_timeout"
    SETUP_FAILED = "setup_failed"
    DISK_FULL = "disk_full"
    NO_PROGRESS = "no_progress"
    SPOT_INTERRUPTED = "spot_interrupted"
    MACHINE_RETIRED = "machine_retired"

    @property
    def outcome(self) -> Outcome:
        """The final state, the retry decision and the operator's sentence."""
        return _OUTCOMES[self]


_OUTCOMES: Mapping[Reason, Outcome] = {
    Reason.COMPLETED: Outcome(State.SUCCEEDED, False, "Everything that was planned is measured."),
    Reason.TIME_BUDGET: Outcome(
        State.SUCCEEDED, False, "The time budget is used up; a new job measures what is left."
    ),
    Reason.CANCELLED: Outcome(
        State.CANCELLED, False, "Cancelled; finished timings are kept, a new job measures the rest."
    ),
    Reason.DEADLINE: Outcome(
        State.FAILED,
        False,
        "The job passed its deadline; finished timings are kept, a new job measures the rest.",
    ),
    Reason.PROBE_REFUSED: Outcome(
        State.FAILED,
        False,
        "The probe cannot carry out this plan there; its message says why. Mend the image or the "
        "interpreter that it is started with.",
    ),
    Reason.PROBE_DIED: Outcome(
        State.FAILED, True, "The probe ended early; a new job measures what is left."
    ),
    Reason.PROBE_STOPPED: Outcome(
        State.FAILED, True, "Somebody stopped the probe; a new job measures what is left."
    ),
    Reason.DEVICE_BROKEN: Outcome(
        State.FAILED, True, "The device failed; check it before a new job measures what is left."
    ),
    Reason.BAD_OUTPUT: Outcome(
        State.FAILED, False, "The results hold a wrong line; the raw file is kept, look at it."
    ),
    Reason.WRONG_MACHINE: Outcome(
        State.FAILED,
        False,
        "The timings were not taken on this machine and were not stored; correct the instance type "
        "or the name by which the catalogue knows its device.",
    ),
    Reason.STEP_FAILED: Outcome(
        State.FAILED,
        True,
        "A step failed five times in a row; its last traceback is in the events, please report it.",
    ),
    Reason.NO_CAPACITY: Outcome(
        State.FAILED,
        False,
        "No zone had a machine of this type for as long as the job may wait; allow more regions "
        "or another price kind, or try later.",
    ),
    Reason.QUOTA: Outcome(
        State.FAILED,
        False,
        "The account's quota does not allow this machine; ask the provider for a higher one.",
    ),
    Reason.LIMIT: Outcome(
        State.FAILED,
        False,
        "A spending limit of this installation forbids the launch; raise it or wait for the "
        "next month.",
    ),
    Reason.CONFIGURATION: Outcome(
        State.FAILED,
        False,
        "The cloud refuses the request as it is set up; its message says which setting to mend.",
    ),
    Reason.CREDENTIALS: Outcome(
        State.FAILED,
        False,
        "The cloud does not accept the credentials; renew them where the workers run.",
    ),
    Reason.LAUNCH_BUG: Outcome(
        State.FAILED,
        False,
        "The cloud knows this launch with another request, which is a fault of the program; "
        "please report it with the events of this job.",
    ),
    Reason.INSTANCE_LOST: Outcome(
        State.FAILED, True, "The machine is gone; finished timings are kept."
    ),
    Reason.HOST_KEY_MISMATCH: Outcome(
        State.FAILED,
        False,
        "Another host key than the pinned one answered; nothing was run there. Find out who "
        "answers at that address before you try again.",
    ),
    Reason.LOGIN_REFUSED: Outcome(
        State.FAILED, False, "The host refuses the login; check the user and its key there."
    ),
    Reason.LAUNCH_TIMEOUT: Outcome(
        State.FAILED,
        True,
        "The cloud did not answer, or did not give the machine in time; see whether it works for "
        "other programs.",
    ),
    Reason.BOOT_TIMEOUT: Outcome(
        State.FAILED, True, "The machine did not answer over SSH in time; look at its image."
    ),
    Reason.SETUP_FAILED: Outcome(
        State.FAILED,
        False,
        "The machine lacks what the probe needs; its message says what. Mend the image or the "
        "name of the interpreter.",
    ),
    Reason.DISK_FULL: Outcome(
        State.FAILED,
        False,
        "The machine's disk is full; finished timings are kept. Give it a larger disk.",
    ),
    Reason.NO_PROGRESS: Outcome(
        State.FAILED, True, "One piece of work took far longer than it may; the rest is kept."
    ),
    Reason.SPOT_INTERRUPTED: Outcome(
        State.FAILED, True, "The spot machine was taken away; finished timings are kept."
    ),
    Reason.MACHINE_RETIRED: Outcome(
        State.FAILED, False, "This machine cannot be rented any more; choose another one."
    ),
}
