"""Making a job of a plan."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from benchmarking.jobs.advance import Ring
from benchmarking.jobs.lifecycle import write_event
from benchmarking.jobs.planner import MeasurementPlan
from benchmarking.models import BenchmarkJob, Machine
from benchmarking.probe.plan import StackRequest, build_plan
from benchmarking.specs import DeviceKind, Engine

if TYPE_CHECKING:
    from django.contrib.auth.models import User

# A plan's time is an estimate: the budget lets it be wrong by this factor.
BUDGET_FACTOR = 3
SMALLEST_BUDGET_SECONDS = 3600.0
LONGEST_QUEUE_TIME = timedelta(days=7)


def create_job(
    *,
    machine: Machine,
    plan: MeasurementPlan,
    stack: StackRequest,
    host_kind: BenchmarkJob.HostKind = BenchmarkJob.HostKind.LOCAL,
    maximum_hours: float | None = None,
    cpu_affinity: Sequence[int] | None = None,
    created_by: User | None = None,
    ring: Ring | None = None,
) -> BenchmarkJob:
    """Queue a job that measures what ``plan`` found missing.

    Parameters
    ----------
    maximum_hours
        The probe's time budget; by default three times what the plan is expected to take.
    ring
        Told of the job once it is committed; without it the sweeper finds it.
    """
    budget_seconds = (
        maximum_hours * 3600
        if maximum_hours is not None
        else max(SMALLEST_BUDGET_SECONDS, BUDGET_FACTOR * plan.expected_seconds)
    )
    document = build_plan(
        machine=machine.slug,
        kind=DeviceKind(machine.device.kind),
        stack=stack,
        work=plan.work,
        time_budget_seconds=budget_seconds,
        cpu_affinity=cpu_affinity,
    )
    now = timezone.now()
    with transaction.atomic():
        job = BenchmarkJob.objects.create(
            machine=machine,
            host_kind=host_kind,
            engine=Engine.TORCH.value,
            plan=document,
            planned_count=len(plan.work),
            expected_seconds=plan.expected_seconds,
            due_at=now,
            # Its turn may be long in coming; measuring then gets a deadline of its own.
            deadline=now + LONGEST_QUEUE_TIME,
            created_by=created_by,
        )
        write_event(job, new_state=job.state, message=f"{len(plan.work)} pieces of work planned.")
        if ring is not None:
            transaction.on_commit(lambda: ring(job.pk, 0.0), robust=True)
    return job


def measuring_core() -> list[int] | None:
    """The core that a probe on this computer is pinned to, ``None`` where that cannot be done.

    The last of those that this process may use: the first one serves most interrupts.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None
    return [max(os.sched_getaffinity(0))]
