"""What rented machines have cost this month: by job, by machine, and what is live now."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.conf import settings
from django.utils import timezone

from benchmarking.jobs.budget import (
    Limits,
    Spending,
    cost_so_far,
    instances_ended_since,
    month_start,
    spending,
    zero_limit,
)
from benchmarking.jobs.instances import live_instances
from benchmarking.models import BenchmarkJob, CloudInstance
from predictions.job_pages import usd_text


@dataclass(frozen=True, slots=True)
class LiveLine:
    """An instance that is paid for right now, or may be."""

    instance: CloudInstance
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class CostLine:
    """What one job's or one machine's instances have cost this month."""

    name: str
    job: BenchmarkJob | None
    instances: int
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class LimitLine:
    """A limit, its amount and the setting that holds it."""

    name: str
    text: str
    setting: str


@dataclass(frozen=True, slots=True)
class SpendingReport:
    """The page's figures; ``stop_sentence`` says why nothing new is launched, if so."""

    totals: Spending
    month: datetime
    live: tuple[LiveLine, ...]
    jobs: tuple[CostLine, ...]
    machines: tuple[CostLine, ...]
    limits: tuple[LimitLine, ...]
    stop_sentence: str


def make_spending_report(now: datetime | None = None) -> SpendingReport:
    """This calendar month (UTC) in three queries, however many instances there were."""
    now = now or timezone.now()
    month = month_start(now)
    totals = spending(now)
    instances = list(
        (live_instances() | instances_ended_since(month))
        .select_related("job__machine")
        .defer("request", "job__plan", "job__host_state")
    )
    costs = {instance.pk: cost_so_far(instance, now) for instance in instances}
    by_job: dict[BenchmarkJob, list[CloudInstance]] = defaultdict(list)
    by_machine: dict[str, list[CloudInstance]] = defaultdict(list)
    for instance in instances:
        by_job[instance.job].append(instance)
        by_machine[instance.job.machine.slug].append(instance)

    def total(found: list[CloudInstance]) -> Decimal:
        return sum((costs[instance.pk] for instance in found), Decimal(0))

    job_lines = [
        CostLine(job.machine.slug, job, len(found), total(found)) for job, found in by_job.items()
    ]
    machine_lines = [
        CostLine(slug, None, len(found), total(found)) for slug, found in by_machine.items()
    ]
    return SpendingReport(
        totals=totals,
        month=month,
        live=tuple(
            LiveLine(instance, costs[instance.pk])
            for instance in instances
            if instance.state in CloudInstance.LIVE_STATES
        ),
        jobs=tuple(sorted(job_lines, key=lambda line: line.cost_usd, reverse=True)),
        machines=tuple(sorted(machine_lines, key=lambda line: line.cost_usd, reverse=True)),
        limits=_limit_lines(totals.limits),
        stop_sentence=stop_sentence(totals),
    )


def stop_sentence(totals: Spending) -> str:
    """Why nothing new is launched, empty where something may be."""
    if not settings.BENCHMARKS_ENABLED:
        return "Benchmarks are switched off (BENCHMARKS_ENABLED): nothing new is launched."
    if (sentence := zero_limit()) is not None:
        return sentence
    if totals.left_this_month_usd <= 0:
        return (
            "This month's limit (BENCHMARK_USD_PER_MONTH) is used up: new launches stop until the "
            "month ends or the limit is raised."
        )
    return ""


def _limit_lines(limits: Limits) -> tuple[LimitLine, ...]:
    return (
        LimitLine("A month", usd_text(limits.usd_per_month), "BENCHMARK_USD_PER_MONTH"),
        LimitLine("A job", usd_text(limits.usd_per_job), "BENCHMARK_USD_PER_JOB"),
        LimitLine("An hour, all together", usd_text(limits.usd_per_hour), "BENCHMARK_USD_PER_HOUR"),
        LimitLine("Machines at once", str(limits.instances), "BENCHMARK_INSTANCES"),
        LimitLine(
            "Machines in one region",
            str(limits.instances_per_region),
            "BENCHMARK_INSTANCES_PER_REGION",
        ),
    )
