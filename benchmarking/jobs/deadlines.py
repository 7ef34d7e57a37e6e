"""How long each state of a job may wait, as moments that are kept in the database.

A moment is set when the state is entered and moves only when something happened that it waited
for, so that no restart extends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from benchmarking.models import BenchmarkJob

State = BenchmarkJob.State
HostKind = BenchmarkJob.HostKind

LONGEST_QUEUE_TIME = timedelta(days=7)
# What a job gets beyond boot and measuring: collection and stopping.
DEADLINE_MARGIN = timedelta(minutes=15)

# From the request to a machine that exists, while the cloud answers.
LAUNCH_LIMIT = timedelta(minutes=15)
# From a machine to one that a probe can be started on.
BOOT_LIMITS: Mapping[str, timedelta] = {
    HostKind.LOCAL: timedelta(minutes=5),
    HostKind.SSH: timedelta(minutes=10),
    HostKind.EC2: timedelta(minutes=15),
}
# From the start of the probe to its first line: a cold disk gives torch slowly.
SETUP_LIMIT = timedelta(minutes=10)
# From one line of the probe to the next: a piece of work may take a minute, on one core several.
PROGRESS_LIMIT = timedelta(minutes=15)
COLLECTING_LIMIT = timedelta(minutes=10)
# How long what the probe printed last may keep a machine alive that costs money.
LAST_COLLECTION_LIMIT = timedelta(minutes=5)
# What a job that has passed its deadline gets to end its instance itself.
EXPIRY_GRACE = timedelta(minutes=10)
# An instance takes a minute or two to end; after this somebody should look.
TERMINATION_ALERT_AFTER = timedelta(minutes=10)


def job_time(host_kind: str, time_budget_seconds: float) -> timedelta:
    """From the start of the launch to the job's deadline."""
    boot = BOOT_LIMITS[host_kind] if host_kind == HostKind.EC2 else timedelta(0)
    return boot + timedelta(seconds=time_budget_seconds) + DEADLINE_MARGIN


def instance_lifetime(time_budget_seconds: float) -> timedelta:
    """From the launch of an instance to the moment at which it ends itself: paid for at most."""
    return job_time(HostKind.EC2, time_budget_seconds) + EXPIRY_GRACE


def instance_expiry(job: BenchmarkJob) -> datetime:
    """When the instance of a job that is being launched ends itself and may be reaped."""
    return job.deadline + EXPIRY_GRACE


def state_deadline(job: BenchmarkJob, state: State, now: datetime) -> datetime | None:
    """By when ``state``, entered now, has come to what it waits for; ``None``: no limit."""
    limits: Mapping[State, timedelta] = {
        State.LAUNCHING: LAUNCH_LIMIT,
        State.BOOTING: BOOT_LIMITS[job.host_kind],
        State.RUNNING: SETUP_LIMIT,
        State.COLLECTING: COLLECTING_LIMIT,
        State.CLEANING: LAST_COLLECTION_LIMIT,
    }
    limit = limits.get(state)
    return None if limit is None else now + limit
