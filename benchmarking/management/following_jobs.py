"""Seeing a job through from the terminal: its steps, its progress, and Ctrl-C."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from django.core.management.base import CommandError

from benchmarking.jobs.advance import LEASE_SECONDS, advance_job
from benchmarking.jobs.lifecycle import State, cancel_job
from benchmarking.jobs.proposal import HostKind
from benchmarking.jobs.reasons import Reason
from benchmarking.models import BenchmarkJob
from benchmarking.progress import ProgressBar

# Nobody else advances a local job as a rule, and a second start should not have to wait for long.
LOCAL_LEASE_SECONDS = 15.0
POLL_SECONDS = 1.0
REMOTE_POLL_SECONDS = 5.0
INTERRUPTED_EXIT_CODE = 130


def follow_job(
    job: BenchmarkJob, say: Callable[[str], object], *, failure_ends_command: bool = True
) -> None:
    """Advance ``job`` to its end with a progress bar, and say how it ended.

    The first Ctrl-C cancels it and waits until its host is given back, so that no rented machine
    is left; the second one leaves that to the worker.

    Raises
    ------
    CommandError
        If it was interrupted, or failed and ``failure_ends_command``.
    """
    bar = ProgressBar(total=job.planned_count, unit="pieces", expected_seconds=job.expected_seconds)
    try:
        is_cancelled = _advance_to_the_end(job, bar)
    except KeyboardInterrupt:
        raise CommandError(_left_behind(job), returncode=INTERRUPTED_EXIT_CODE) from None
    job.refresh_from_db(fields=["state", "reason", "stored_count", "failed_count"])
    summary = _summary(job)
    if job.state == State.CANCELLED and is_cancelled:
        raise CommandError(summary, returncode=INTERRUPTED_EXIT_CODE)
    if job.state == State.FAILED and failure_ends_command:
        raise CommandError(f"{summary} {_last_message(job)}".strip(), returncode=1)
    say(summary)


def _advance_to_the_end(job: BenchmarkJob, bar: ProgressBar) -> bool:
    """Whether the job was cancelled from here."""
    is_cancelled = False
    with bar, _interrupts() as interrupts:
        while (delay_seconds := _advance(job)) is not None:
            job.refresh_from_db(fields=["state", "stored_count", "failed_count", "current_work"])
            bar.update(job.stored_count + job.failed_count, _doing(job))
            if interrupts and not is_cancelled:
                cancel_job(job, message="Interrupted at the terminal.")
                is_cancelled = True
                if job.host_kind == HostKind.EC2:
                    _explain_the_wait(bar)
                continue
            time.sleep(min(delay_seconds, POLL_SECONDS))
    return is_cancelled


def _advance(job: BenchmarkJob) -> float | None:
    if job.host_kind == HostKind.LOCAL:
        return advance_job(job.pk, lease_seconds=LOCAL_LEASE_SECONDS, poll_seconds=POLL_SECONDS)
    return advance_job(job.pk, lease_seconds=LEASE_SECONDS, poll_seconds=REMOTE_POLL_SECONDS)


def _explain_the_wait(bar: ProgressBar) -> None:
    bar.clear()
    print(
        "Cancelling; this waits until the rented machine is gone. Ctrl-C again leaves that to "
        "the worker.",
        file=sys.stderr,
    )


def _left_behind(job: BenchmarkJob) -> str:
    if job.host_kind != HostKind.EC2:
        return "Interrupted; the same command goes on from here."
    return (
        "Interrupted; the rented machine is paid for until a worker has ended it. "
        f"The page /jobs/{job.pk}/ and list_instances say when it is gone."
    )


def _summary(job: BenchmarkJob) -> str:
    failed = f", {job.failed_count} failed" if job.failed_count else ""
    gone = " The rented machine is gone." if job.instances.exists() else ""
    return (
        f"{job.stored_count} of {job.planned_count} pieces of work measured{failed}. "
        f"{Reason(job.reason).outcome.sentence}{gone}"
    )


def _doing(job: BenchmarkJob) -> str:
    return job.current_work if job.state == State.RUNNING else job.get_state_display().lower()


def _last_message(job: BenchmarkJob) -> str:
    event = job.events.filter(new_state=State.CLEANING).last()
    if event is None or event.message == Reason(job.reason).outcome.sentence:
        return ""
    return event.message.splitlines()[-1] if event.message else ""


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """The Ctrl-C signals so far; the second one ends the command on the spot."""
    received: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    previous = signal.signal(signal.SIGINT, remember)
    try:
        yield received
    finally:
        signal.signal(signal.SIGINT, previous)
