"""What each state of a job does in one step, and to which state that leads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from benchmarking.hosts.base import PLAN_FILE, PROBE_FILE, ProcessReport, ProcessStatus
from benchmarking.jobs.collection import (
    FETCH_BYTES,
    CollectionError,
    collect_lines,
    completion_of,
)
from benchmarking.jobs.lifecycle import Reason, State, write_event
from benchmarking.jobs.step import Step
from benchmarking.models import BenchmarkJob
from benchmarking.probe import PROBE_PATH
from benchmarking.probe.dnnmark.program import dnnmark_program
from benchmarking.probe.results import StoppedBy
from benchmarking.specs import Engine

# What a job gets beyond the time that its probe may take: start, collection, stopping.
DEADLINE_MARGIN = timedelta(minutes=15)
STOP_GRACE = timedelta(seconds=20)
START_GRACE = timedelta(seconds=60)
STOP_POLL_SECONDS = 1.0
PROBE_REFUSED_EXIT_CODE = 2

_REASONS_OF_COMPLETION: Mapping[StoppedBy, Reason] = {
    StoppedBy.END_OF_PLAN: Reason.COMPLETED,
    StoppedBy.TIME_BUDGET: Reason.TIME_BUDGET,
    StoppedBy.SIGNAL: Reason.PROBE_STOPPED,
    StoppedBy.FATAL_ERROR: Reason.DEVICE_BROKEN,
}
# Their output is not to be trusted, so nothing more of it is stored.
_UNTRUSTED_OUTPUT = (Reason.BAD_OUTPUT, Reason.WRONG_MACHINE)


def queued(step: Step) -> float:
    """Wait for the turn: one probe at a time on one computer."""
    if step.now > step.job.deadline:
        return _clean(step, Reason.DEADLINE)
    if _other_local_job_is_under_way(step.job):
        return 3 * step.poll_seconds
    budget_seconds = step.job.plan["time_budget_seconds"]
    deadline = step.now + timedelta(seconds=budget_seconds) + DEADLINE_MARGIN
    try:
        with transaction.atomic():
            step.move(State.LAUNCHING, changes={"deadline": deadline, "started_at": step.now})
    except IntegrityError:
        # Another job's turn came at the same moment; the database lets one through.
        return 3 * step.poll_seconds
    return 0.0


def _other_local_job_is_under_way(job: BenchmarkJob) -> bool:
    if job.host_kind != BenchmarkJob.HostKind.LOCAL:
        return False
    return (
        BenchmarkJob.objects.filter(host_kind=BenchmarkJob.HostKind.LOCAL)
        .exclude(state__in=[State.QUEUED, *BenchmarkJob.FINAL_STATES])
        .exclude(pk=job.pk)
        .exists()
    )


def launching(step: Step) -> float:
    """Ask for the host until it is there."""
    if step.now > step.job.deadline:
        return _clean(step, Reason.DEADLINE)
    if not step.host.acquire(step.host_job):
        step.write()
        return step.poll_seconds
    step.move(State.BOOTING)
    return 0.0


def booting(step: Step) -> float:
    """Bring plan and probe there and start."""
    if step.now > step.job.deadline:
        return _clean(step, Reason.DEADLINE)
    if not step.host.is_ready(step.host_job):
        return step.poll_seconds
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
        return _clean(step, error.reason, str(error))
    if report.status is ProcessStatus.ENDED:
        step.move(State.COLLECTING)
        return 0.0
    if step.now > step.job.deadline:
        return _clean(step, Reason.DEADLINE)
    if report.status is ProcessStatus.NOT_STARTED:
        if step.now - _moment(step, "started_at") > START_GRACE:
            return _clean(step, Reason.PROBE_DIED, "The probe did not start.")
        step.host.start(step.host_job)
    # A piece that is nearly full has more behind it; a probe prints far less between two looks.
    return 0.0 if stored_bytes > FETCH_BYTES / 2 else step.poll_seconds


def collecting(step: Step) -> float:
    """Store the rest of what the probe has printed, and see why it ended."""
    try:
        if collect_lines(step):
            return 0.0
    except CollectionError as error:
        return _clean(step, error.reason, str(error))
    report = step.host.poll(step.host_job)
    completion = completion_of(step)
    if completion is not None:
        return _clean(step, _REASONS_OF_COMPLETION[completion])
    if report.exit_code == PROBE_REFUSED_EXIT_CODE:
        return _clean(step, Reason.PROBE_REFUSED, _last_line(report))
    message = f"The probe {_ending(report.exit_code)}. {_last_line(report)}".strip()
    return _clean(step, Reason.PROBE_DIED, message)


def cleaning(step: Step) -> float:
    """Stop the probe if it runs, keep what it has measured, give the host back."""
    report = step.host.poll(step.host_job)
    if report.status is ProcessStatus.RUNNING:
        return _stop(step)
    reason = Reason(step.job.reason)
    if reason not in _UNTRUSTED_OUTPUT:
        try:
            if collect_lines(step):
                return 0.0
        except CollectionError as error:
            # A wrong line must not keep a machine running that costs money.
            write_event(step.job, message=f"Not everything was stored: {error}")
    if not step.host.release(step.host_job):
        return STOP_POLL_SECONDS
    step.move(
        reason.outcome.final_state,
        message=(
            f"{reason.outcome.sentence} {step.job.stored_count} of {step.job.planned_count} stored."
        ),
    )
    return 0.0


def _stop(step: Step) -> float:
    """Ask the probe to end, once, for a second signal may hit it while it ends; then force it."""
    asked = step.host_job.state.get("stop_asked_at")
    if asked is None:
        step.host.stop(step.host_job, force=False)
        step.host_job.state["stop_asked_at"] = step.now.isoformat()
        step.write()
    elif step.now - datetime.fromisoformat(asked) > STOP_GRACE:
        step.host.stop(step.host_job, force=True)
    return STOP_POLL_SECONDS


def _clean(step: Step, reason: Reason, message: str = "") -> float:
    step.move(State.CLEANING, reason=reason, message=message or reason.outcome.sentence)
    return 0.0


def _moment(step: Step, name: str) -> datetime:
    return datetime.fromisoformat(step.host_job.state[name])


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
    State.WAITING_CAPACITY: launching,
    State.BOOTING: booting,
    State.RUNNING: running,
    State.COLLECTING: collecting,
    State.CLEANING: cleaning,
}
