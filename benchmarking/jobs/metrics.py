"""How the jobs do, as numbers for whoever watches: read from the database when asked for.

Nothing is counted in a process, so that it does not matter which of them answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.conf import settings
from django.db.models import Count, Min, Q
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from benchmarking.jobs.advance import oldest_due_moment
from benchmarking.jobs.automatic_machines import wrong_machines
from benchmarking.jobs.budget import Spending, spending
from benchmarking.jobs.deadlines import TERMINATION_ALERT_AFTER
from benchmarking.models import BenchmarkJob, CloudInstance, Heartbeat

BEAT = "beat"


@dataclass(frozen=True, slots=True)
class JobHealth:
    """What tells whether jobs go on and machines end.

    ``oldest_due_seconds`` is 0 where nothing waits; ``beat_age_seconds`` is infinite where no
    sweep has ever run. ``unfinished_ends`` counts instances whose end was asked for long ago, and
    ``expired_instances`` those that live past their time. ``wrong_automatic_machines`` counts
    machines that the settings want measured by themselves and that cannot be launched.
    """

    oldest_due_seconds: float
    beat_age_seconds: float
    jobs_by_state: Mapping[str, int]
    spending: Spending
    unfinished_ends: int
    expired_instances: int
    wrong_automatic_machines: int


def beat() -> None:
    """Write down that beat and a worker are alive; the sweep does it."""
    Heartbeat.objects.update_or_create(name=BEAT, defaults={"at": timezone.now()})


def job_health() -> JobHealth:
    """Look at the database, with a number of queries that does not depend on what is there."""
    now = timezone.now()
    oldest_due = oldest_due_moment()
    last_beat = Heartbeat.objects.filter(name=BEAT).aggregate(at=Min("at"))["at"]
    by_state = dict(BenchmarkJob.objects.order_by().values_list("state").annotate(jobs=Count("pk")))
    live = Q(state__in=CloudInstance.LIVE_STATES)
    trouble = CloudInstance.objects.filter(live).aggregate(
        unfinished_ends=Count("pk", filter=Q(terminate_asked_at__lt=now - TERMINATION_ALERT_AFTER)),
        expired=Count("pk", filter=Q(expires_at__lt=now)),
    )
    return JobHealth(
        oldest_due_seconds=0.0 if oldest_due is None else (now - oldest_due).total_seconds(),
        beat_age_seconds=float("inf") if last_beat is None else (now - last_beat).total_seconds(),
        jobs_by_state={state: by_state.get(state, 0) for state in BenchmarkJob.State.values},
        spending=spending(now),
        unfinished_ends=trouble["unfinished_ends"],
        expired_instances=trouble["expired"],
        wrong_automatic_machines=len(wrong_machines().sentences),
    )


def metrics_text() -> bytes:
    """All of it in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_JobCollector(job_health()))
    return generate_latest(registry)


class _JobCollector(Collector):
    def __init__(self, health: JobHealth) -> None:
        self._health = health

    def collect(self) -> Iterator[GaugeMetricFamily]:
        health, money = self._health, self._health.spending
        numbers: dict[str, tuple[str, float | Decimal]] = {
            "oldest_due_job_seconds": (
                "How long the step that waits longest is due; 0 if none is.",
                health.oldest_due_seconds,
            ),
            "beat_age_seconds": (
                "Seconds since the last sweep, which needs beat, the broker and a worker.",
                health.beat_age_seconds,
            ),
            "benchmarks_enabled": (
                "Whether new jobs are started.",
                float(settings.BENCHMARKS_ENABLED),
            ),
            "live_instances": ("Cloud instances that may run.", money.live_instances),
            "live_instances_limit": ("How many may run.", money.limits.instances),
            "usd_per_hour": ("What they cost an hour together.", money.usd_per_hour),
            "usd_per_hour_limit": ("What they may cost an hour.", money.limits.usd_per_hour),
            "reserved_usd": ("What they may still cost at most.", money.reserved_usd),
            "spent_this_month_usd": (
                "What has ended since the month began (UTC) has cost.",
                money.spent_this_month_usd,
            ),
            "usd_per_month_limit": ("What a month may cost.", money.limits.usd_per_month),
            "unfinished_terminations": (
                "Instances whose end was asked for ten minutes ago and is not confirmed.",
                health.unfinished_ends,
            ),
            "expired_instances": (
                "Instances that live past the time at which they should have ended.",
                health.expired_instances,
            ),
            "wrong_automatic_machines": (
                "Machines of AUTOMATIC_BENCHMARK_MACHINES that are unknown or retired.",
                health.wrong_automatic_machines,
            ),
        }
        for name, (description, value) in numbers.items():
            yield GaugeMetricFamily(f"epochcast_{name}", description, value=float(value))
        jobs = GaugeMetricFamily("epochcast_jobs", "Benchmark jobs by state.", labels=["state"])
        for state, count in health.jobs_by_state.items():
            jobs.add_metric([state], count)
        yield jobs
        regions = GaugeMetricFamily(
            "epochcast_live_instances_by_region", "Of these, in each region.", labels=["region"]
        )
        for region, count in sorted(money.live_by_region.items()):
            regions.add_metric([region], count)
        yield regions
