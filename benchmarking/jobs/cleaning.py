"""The end of a job: stop the probe, keep what it has measured, give the host back, go on.

Nothing here may keep a machine alive that costs money: what cannot be fetched within minutes is
given up, and the release is tried for ever.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from benchmarking.hosts.base import HostFaultError, HostUnavailableError, ProcessStatus
from benchmarking.jobs.collection import CollectionError, collect_lines
from benchmarking.jobs.lifecycle import write_event
from benchmarking.jobs.reasons import Reason
from benchmarking.jobs.retry import retry_automatically
from benchmarking.jobs.secrets import erase_job_secret
from benchmarking.jobs.step import StaleLeaseError, Step
from benchmarking.jobs.turns import wake_next
from benchmarking.models import BenchmarkJob

HostKind = BenchmarkJob.HostKind

STOP_GRACE = timedelta(seconds=20)
STOP_POLL_SECONDS = 1.0
RELEASE_RETRY_SECONDS = 30.0

# Their output is not to be trusted, so nothing more of it is stored.
_UNTRUSTED_OUTPUT = (Reason.BAD_OUTPUT, Reason.WRONG_MACHINE)


def cleaning(step: Step) -> float:
    """Stop the probe if it runs, keep what it has measured, give the host back."""
    if "booted" in step.host_job.state:
        delay_seconds = _end_probe(step)
        if delay_seconds is not None:
            return delay_seconds
    try:
        is_released = step.host.release(step.host_job)
    except (HostUnavailableError, HostFaultError) as error:
        if not _may_be_abandoned(step, error):
            step.say_once(f"The host is not given back yet: {error}")
            return RELEASE_RETRY_SECONDS
        step.say_once(f"The host cannot be reached; see whether anything still runs there: {error}")
        is_released = True
    if not is_released:
        is_local = step.job.host_kind == HostKind.LOCAL
        return STOP_POLL_SECONDS if is_local else step.poll_seconds
    _finish(step)
    return 0.0


def _end_probe(step: Step) -> float | None:
    """Seconds until the next try; ``None`` once nothing more is to be had from the probe."""
    is_paid = step.job.host_kind == HostKind.EC2
    is_late = step.now > (step.job.state_deadline or step.job.deadline)
    is_given_up = "left_behind" in step.host_job.state
    if is_paid and is_given_up:
        return None
    try:
        report = step.host.poll(step.host_job)
        # A machine that is ended takes its probe with it.
        if report.status is ProcessStatus.RUNNING and not (is_paid and is_late):
            return _stop(step)
        if is_given_up or Reason(step.job.reason) in _UNTRUSTED_OUTPUT:
            return None
        if collect_lines(step):
            if not is_late:
                return 0.0
            _leave_behind(step, "there is more than can be fetched in time")
    except HostUnavailableError as error:
        if not is_late:
            return 3 * step.poll_seconds
        _leave_behind(step, str(error))
    except (HostFaultError, CollectionError) as error:
        _leave_behind(step, str(error))
    except StaleLeaseError:
        raise
    except Exception as error:
        if not (is_paid and is_late):
            raise
        _leave_behind(step, repr(error))
    return None


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


def _leave_behind(step: Step, why: str) -> None:
    """Give up what is not stored yet, and say so once."""
    if "left_behind" in step.host_job.state:
        return
    step.host_job.state["left_behind"] = True
    with transaction.atomic():
        step.write()
        write_event(step.job, message=f"Not everything was stored: {why}")


def _may_be_abandoned(step: Step, error: Exception) -> bool:
    """Whether nothing there costs money, and waiting for it helps nobody."""
    if step.job.host_kind == HostKind.EC2:
        return False
    if isinstance(error, HostFaultError) or "booted" not in step.host_job.state:
        return True
    return step.now > max(step.job.deadline, step.job.state_deadline or step.job.deadline)


def _finish(step: Step) -> None:
    """Write the end; erase the keys; let another job measure the rest, and the next one start."""
    job = step.job
    outcome = Reason(job.reason).outcome
    with transaction.atomic():
        step.move(
            outcome.final_state,
            message=f"{outcome.sentence} {job.stored_count} of {job.planned_count} stored.",
        )
        erase_job_secret(job)
        woken = wake_next(job)
        if step.ring is not None:
            ring = step.ring
            retry_automatically(job)
            transaction.on_commit(lambda: [ring(job_id, 0.0) for job_id in woken], robust=True)
