"""Another job for what a job has not measured: by itself where that helps, or when asked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from benchmarking.jobs.budget import job_cost_usd
from benchmarking.jobs.creation import create_job
from benchmarking.jobs.known import LASTING_FAILURES
from benchmarking.jobs.lifecycle import write_event
from benchmarking.jobs.planner import MeasurementPlan
from benchmarking.jobs.quote import JobRefusedError
from benchmarking.jobs.reasons import Reason
from benchmarking.jobs.step import Ring
from benchmarking.models import (
    BenchmarkJob,
    FailedTiming,
    IterationTiming,
    LayerTiming,
    MeasurementRun,
    Price,
)
from benchmarking.probe.plan import ConvolutionWork, Work, stack_of_plan, work_of_plan

if TYPE_CHECKING:
    from django.contrib.auth.models import User

# The first job and what follows it by itself.
LONGEST_CHAIN = 3
# After so many interruptions a spot machine is no bargain.
INTERRUPTIONS_UNTIL_ON_DEMAND = 2
RETRY_DELAY = timedelta(minutes=2)


def retry_job(
    job: BenchmarkJob, *, user: User | None = None, ring: Ring | None = None
) -> BenchmarkJob:
    """Queue a job that measures what an ended job has not, on the same kind of host.

    It may cost what the first job of the chain was agreed to cost. After two interruptions the
    machine is rented on demand.

    Raises
    ------
    JobRefusedError
        If the job is not over, was retried before, or left nothing to measure; and for what
        forbids any new job.
    """
    if not job.is_final:
        raise JobRefusedError("The job is not over yet; cancel it first, or wait for its end.")
    return _go_on(job, maximum_usd=agreed_usd(job), created_by=user, ring=ring)


def retry_automatically(job: BenchmarkJob) -> BenchmarkJob | None:
    """The job that goes on with one that ended for a reason that may be gone next time.

    At most three jobs follow each other so, and together they cost no more than was agreed to
    for the first. To be called in the transaction that ends the job.
    """
    if not Reason(job.reason).outcome.retry:
        return None
    if job.attempt >= LONGEST_CHAIN:
        write_event(job, message=f"Not tried again by itself: it was the {_nth(job.attempt)} try.")
        return None
    left_usd = None if job.maximum_usd is None else job.maximum_usd - job_cost_usd(job)
    try:
        if left_usd is not None and left_usd <= 0:
            raise JobRefusedError("What was agreed to is used up.")
        successor = _go_on(
            job,
            maximum_usd=left_usd,
            created_by=job.created_by,
            due_at=timezone.now() + RETRY_DELAY,
        )
    except JobRefusedError as error:
        write_event(job, message=f"Not tried again by itself: {error}")
        return None
    write_event(job, message=f"Job {successor.pk} measures what is left.")
    return successor


def missing_work(job: BenchmarkJob) -> list[Work]:
    """What of the job's plan has neither been timed since it was made nor failed for good."""
    run = job.runs.select_related("stack").first()
    timed = Q(run__job=job)
    if run is not None:
        since = MeasurementRun.objects.filter(stack=run.stack, started_at__gte=job.created_at)
        timed |= Q(run__in=since, run__machine__device=job.machine.device_id)
    layers = set(
        LayerTiming.objects.filter(timed).values_list(
            "layer__key", "batch_size", "operation", "round"
        )
    )
    networks = set(
        IterationTiming.objects.filter(timed, run__machine=job.machine_id).values_list(
            "architecture__slug",
            "architecture__image_size",
            "batch_size",
            "optimizer",
            "round",
        )
    )
    hopeless = FailedTiming.objects.filter(run__job=job, kind__in=LASTING_FAILURES)
    hopeless_layers = set(
        hopeless.filter(layer__isnull=False).values_list("layer__key", "batch_size")
    )
    hopeless_networks = set(
        hopeless.filter(architecture__isnull=False).values_list(
            "architecture__slug", "architecture__image_size", "batch_size"
        )
    )
    missing: list[Work] = []
    for item in work_of_plan(job.plan):
        if isinstance(item, ConvolutionWork):
            key, size = item.layer.key, item.batch_size
            passes = tuple(
                operation
                for operation in item.passes
                if (key, size, operation.value, item.round) not in layers
            )
            if passes and (key, size) not in hopeless_layers:
                missing.append(replace(item, passes=passes))
            continue
        network = (item.architecture, item.image_size, item.batch_size)
        is_timed = (*network, item.optimizer.value, item.round) in networks
        if not is_timed and network not in hopeless_networks:
            missing.append(item)
    return missing


def _go_on(job: BenchmarkJob, *, maximum_usd: Decimal | None, **values: Any) -> BenchmarkJob:
    if (successor := _successor(job)) is not None:
        raise JobRefusedError(f"Job {successor.pk} goes on with it already.")
    work = missing_work(job)
    if not work:
        raise JobRefusedError("It left nothing to measure.")
    share = len(work) / max(1, job.planned_count)
    is_dear_bargain = job.interruptions >= INTERRUPTIONS_UNTIL_ON_DEMAND
    plan = MeasurementPlan(
        work=tuple(work),
        expected_seconds=job.expected_seconds * share,
        usd_per_hour=None,
        already_measured=0,
    )
    try:
        with transaction.atomic():
            return create_job(
                machine=job.machine,
                plan=plan,
                stack=stack_of_plan(job.plan),
                host_kind=job.host_kind,
                remote_host=job.remote_host,
                price_kind=Price.Kind.ON_DEMAND if is_dear_bargain else job.price_kind,
                maximum_hours=job.plan["time_budget_seconds"] / 3600,
                maximum_usd=maximum_usd,
                cpu_affinity=job.plan["cpu_affinity"],
                retry_of=job,
                **values,
            )
    except IntegrityError:
        raise JobRefusedError("Another job goes on with it already.") from None


def _successor(job: BenchmarkJob) -> BenchmarkJob | None:
    return BenchmarkJob.objects.defer("plan").filter(retry_of=job).first()


def agreed_usd(job: BenchmarkJob) -> Decimal | None:
    """What was agreed to for the first job of the chain, within today's limit."""
    first = job
    while first.retry_of is not None:
        first = first.retry_of
    if first.maximum_usd is None:
        return None
    return min(first.maximum_usd, settings.BENCHMARK_USD_PER_JOB)


def _nth(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")
