"""What each state of a job does in one step, and to which state that leads.

Each looks at the world before it looks at the clock, so that a clock that jumped ends nothing
that has come to its end meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction

from benchmarking.hosts.base import PLAN_FILE, PROBE_FILE, ProcessReport, ProcessStatus
from benchmarking.jobs.cleaning import cleaning
from benchmarking.jobs.collection import (
    FETCH_BYTES,
    CollectionError,
    collect_lines,
    completion_of,
)
from benchmarking.jobs.deadlines import job_time
from benchmarking.jobs.faults import give_up_waiting, wait_for_room
from benchmarking.jobs.lifecycle import State
from benchmarking.jobs.reasons import Reason
from benchmarking.jobs.step import Step
from benchmarking.jobs.turns import jobs_before
from benchmarking.models import BenchmarkJob
from benchmarking.probe import PROBE_PATH
from benchmarking.probe.dnnmark.program import dnnmark_program
from benchmarking.probe.results import StoppedBy
from benchmarking.specs import Engine

START_GRACE = timedelta(seconds=60)
PROBE_REFUSED_EXIT_CODE = 2
# Those far behind in the line look less often; a job that leaves wakes the next one anyway.
LONGEST_TURN_POLLS = 60
SWITCHED_OFF_SECONDS = 60.0
SWITCHED_OFF = "BENCHMARKS_ENABLED is off: it waits until somebody switches it on."

_REASONS_OF_COMPLETION: Mapping[StoppedBy, Reason] = {
    StoppedBy.END_OF_PLAN: Reason.COMPLETED,
    StoppedBy.TIME_BUDGET: Reason.TIME_BUDGET,
    StoppedBy.SIGNAL: Reason.PROBE_STOPPED,
    StoppedBy.FATAL_ERROR: Reason.DEVICE_BROKEN,
}


def queued(step: Step) -> float:
    """Wait for the turn."""
    if step.is_overdue:
        return step.clean(Reason.DEADLINE)
    return _launch_in_turn(step, "started_at")


def waiting(step: Step) -> float:
    """Wait for capacity or room in the cloud, then ask again."""
    if step.is_state_overdue or step.is_overdue:
        return give_up_waiting(step)
    return _launch_in_turn(step)


def _launch_in_turn(step: Step, *moments: str) -> float:
    """Begin the launch if that is allowed and it is this job's turn.

    Measuring gets a deadline of its own from now on; ``moments`` are columns to set to now.
    """
    if not settings.BENCHMARKS_ENABLED:
        step.say_once(SWITCHED_OFF)
        return SWITCHED_OFF_SECONDS
    if before := jobs_before(step.job):
        return min(3 * before, LONGEST_TURN_POLLS) * step.poll_seconds
    budget_seconds = step.job.plan["time_budget_seconds"]
    deadline = step.now + job_time(step.job.host_kind, budget_seconds)
    try:
        with transaction.atomic():
            step.move(
                State.LAUNCHING,
                changes={"deadline": deadline, **dict.fromkeys(moments, step.now)},
            )
    except IntegrityError:
        # Another job's turn came at the same moment; the database lets one through.
        return 3 * step.poll_seconds
    return 0.0


def launching(step: Step) -> float:
    """Ask for the host until it is there."""
    if step.is_overdue:
        return step.clean(Reason.DEADLINE)
    if step.host.acquire(step.host_job):
        step.host_job.state["booted"] = True
        step.move(State.BOOTING)
        return 0.0
    if waits_for := step.host_job.state.pop("waits_for", ""):
        return wait_for_room(step, waits_for)
    if step.is_state_overdue:
        return step.clean(Reason.LAUNCH_TIMEOUT)
    step.write()
    return step.poll_seconds


def booting(step: Step) -> float:
    """Bring plan and probe there and start."""
    if step.is_overdue:
        return step.clean(Reason.DEADLINE)
    if not step.host.is_ready(step.host_job):
        return step.clean(Reason.BOOT_TIMEOUT) if step.is_state_overdue else step.poll_seconds
    files = {PLAN_FILE: json.dumps(step.job.plan).encode(), PROBE_FILE: _probe_of(step.job)}
    step.host.put(step.host_job, files)
    step.host.start(step.host_job)
    step.host_job.state["started_at"] = step.now.isoformat()
    step.move(State.RUNNING)
    return min(1.0, step.poll_seconds)


def _probe_of(job: BenchmarkJob) -> bytes:
    return dnnmark_program() if job.engine == Engine.DNNMARK else PROBE_PATH.read_bytes()


def running(step: Step) -> float:
    """Store what the probe has printed since the last look."""
    report = step.host.poll(step.host_job)
    try:
        stored_bytes = collect_lines(step)
    except CollectionError as error:
        return step.clean(error.reason, str(error))
    if report.status is ProcessStatus.ENDED:
        step.move(State.COLLECTING)
        return 0.0
    if report.is_interrupted:
        return step.clean(Reason.SPOT_INTERRUPTED)
    if step.is_overdue:
        return step.clean(Reason.DEADLINE)
    if not stored_bytes and step.is_state_overdue:
        return _stuck(step)
    if report.status is ProcessStatus.NOT_STARTED:
        if step.now - datetime.fromisoformat(step.host_job.state["started_at"]) > START_GRACE:
            return step.clean(Reason.PROBE_DIED, "The probe did not start.")
        step.host.start(step.host_job)
    # A piece that is nearly full has more behind it; a probe prints far less between two looks.
    return 0.0 if stored_bytes > FETCH_BYTES / 2 else step.poll_seconds


def collecting(step: Step) -> float:
    """Store the rest of what the probe has printed, and see why it ended."""
    try:
        if collect_lines(step) and not step.is_state_overdue:
            return 0.0
    except CollectionError as error:
        return step.clean(error.reason, str(error))
    report = step.host.poll(step.host_job)
    completion = completion_of(step)
    if report.is_interrupted and completion in (None, StoppedBy.SIGNAL):
        return step.clean(Reason.SPOT_INTERRUPTED, _last_line(report))
    if completion is not None:
        return step.clean(_REASONS_OF_COMPLETION[completion])
    if report.is_disk_full:
        return step.clean(Reason.DISK_FULL, f"The disk is full. {_last_line(report)}".strip())
    if report.exit_code == PROBE_REFUSED_EXIT_CODE:
        return step.clean(Reason.PROBE_REFUSED, _last_line(report))
    message = f"The probe {_ending(report.exit_code)}. {_last_line(report)}".strip()
    return step.clean(Reason.PROBE_DIED, message)


def _stuck(step: Step) -> float:
    """End a job whose probe runs and prints nothing any more."""
    if "run_id" not in step.host_job.state:
        return step.clean(
            Reason.SETUP_FAILED, "The probe was started and has not printed a single line."
        )
    after = f" after {step.job.current_work}" if step.job.current_work else ""
    return step.clean(Reason.NO_PROGRESS, f"The probe prints nothing any more{after}.")


def _ending(exit_code: int | None) -> str:
    if exit_code is None:
        return "ended without an exit code"
    # A shell adds 128 to the number of the signal that ended a program.
    return (
        f"was killed by signal {exit_code - 128}" if exit_code > 128 else f"left with {exit_code}"
    )


def _last_line(report: ProcessReport) -> str:
    lines = report.errors.splitlines()
    return lines[-1].removeprefix("probe: ") if lines else ""


HANDLERS: Mapping[State, Callable[[Step], float]] = {
    State.QUEUED: queued,
    State.LAUNCHING: launching,
    State.WAITING_CAPACITY: waiting,
    State.BOOTING: booting,
    State.RUNNING: running,
    State.COLLECTING: collecting,
    State.CLEANING: cleaning,
}
