"""What cloud machines may cost: room is reserved before a launch and settled after the end.

The limits are the settings ``BENCHMARK_*``. A reservation counts exactly as long as its instance
is live, and its cost from then on, so that none can be left behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_UP, Decimal

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from benchmarking.hosts.base import HostFault, HostFaultError
from benchmarking.models import BenchmarkJob, CloudInstance
from benchmarking.money import usd_text

# Linux instances on demand and spot are billed by the second, for a minute at least
# (https://aws.amazon.com/ec2/pricing/on-demand/, read 2026-11-29).
SMALLEST_BILLED_TIME = timedelta(seconds=60)
SMALLEST_AMOUNT = Decimal("0.000001")

# Any number that no other advisory lock of this database uses.
_LOCK_NUMBER = 0x45706F63


class LimitReachedError(HostFaultError):
    """A spending limit forbids the launch.

    ``may_wait`` says that room comes back when other instances end.
    """

    def __init__(self, message: str, *, may_wait: bool) -> None:
        super().__init__(HostFault.LIMIT, message)
        self.may_wait = may_wait


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of this installation, in instances and US dollars."""

    instances: int
    instances_per_region: int
    usd_per_hour: Decimal
    usd_per_job: Decimal
    usd_per_month: Decimal


@dataclass(frozen=True, slots=True)
class Spending:
    """What is live, what that may still cost, and what this calendar month (UTC) has cost.

    ``usd_per_hour`` is that of all live instances together; ``reserved_usd`` is what they may
    cost until their jobs' deadlines, or have cost already where that is more.
    """

    live_instances: int
    live_by_region: Mapping[str, int]
    usd_per_hour: Decimal
    reserved_usd: Decimal
    spent_this_month_usd: Decimal
    limits: Limits

    @property
    def left_this_month_usd(self) -> Decimal:
        """What may still be reserved this month."""
        committed = self.spent_this_month_usd + self.reserved_usd
        return max(Decimal(0), self.limits.usd_per_month - committed)


def current_limits() -> Limits:
    """The limits as the settings have them now."""
    return Limits(
        instances=settings.BENCHMARK_INSTANCES,
        instances_per_region=settings.BENCHMARK_INSTANCES_PER_REGION,
        usd_per_hour=settings.BENCHMARK_USD_PER_HOUR,
        usd_per_job=settings.BENCHMARK_USD_PER_JOB,
        usd_per_month=settings.BENCHMARK_USD_PER_MONTH,
    )


def zero_limit() -> str | None:
    """A sentence that names a limit of 0, which forbids every launch; ``None`` if there is none."""
    limits = current_limits()
    by_setting = {
        "BENCHMARK_USD_PER_MONTH": limits.usd_per_month,
        "BENCHMARK_USD_PER_JOB": limits.usd_per_job,
        "BENCHMARK_USD_PER_HOUR": limits.usd_per_hour,
        "BENCHMARK_INSTANCES": limits.instances,
        "BENCHMARK_INSTANCES_PER_REGION": limits.instances_per_region,
    }
    for name, value in by_setting.items():
        if not value:
            return f"{name} is 0, so nothing that costs money is launched; set it higher."
    return None


def spending(now: datetime | None = None) -> Spending:
    """What is spent and reserved, in two queries however many instances there were."""
    now = now or timezone.now()
    live = list(
        CloudInstance.objects.filter(state__in=CloudInstance.LIVE_STATES).only(
            "region", "usd_per_hour", "reserved_usd", "launched_at", "terminated_at"
        )
    )
    return Spending(
        live_instances=len(live),
        live_by_region=dict(Counter(instance.region for instance in live)),
        usd_per_hour=_sum(instance.usd_per_hour for instance in live),
        reserved_usd=_sum(max(i.reserved_usd, cost_until(i, now)) for i in live),
        spent_this_month_usd=_spent_since(month_start(now)),
        limits=current_limits(),
    )


def reserve(job: BenchmarkJob, *, region: str, usd_per_hour: Decimal, hours: Decimal) -> Decimal:
    """Check that ``job`` may launch one more instance, and say what to reserve for it.

    The caller writes the instance's row in the same transaction: until that is committed, every
    other launch waits here.

    Parameters
    ----------
    usd_per_hour
        The price in ``region``.
    hours
        How long the instance may live at most.

    Returns
    -------
    US dollars, ``usd_per_hour`` times ``hours``, for ``CloudInstance.reserved_usd``.

    Raises
    ------
    LimitReachedError
        If a limit forbids it; the message names the limit and its setting.
    TransactionManagementError
        Outside a transaction, where the lock would end before the row is written.
    """
    _lock()
    amount = (usd_per_hour * hours).quantize(SMALLEST_AMOUNT, rounding=ROUND_UP)
    _refuse_for_good(job, usd_per_hour, amount)
    now = spending()
    limits = now.limits
    committed = now.spent_this_month_usd + now.reserved_usd
    if committed + amount > limits.usd_per_month:
        raise LimitReachedError(
            f"{usd_text(now.spent_this_month_usd)} are spent this month and "
            f"{usd_text(now.reserved_usd)} reserved; {usd_text(amount)} more would pass the "
            f"{usd_text(limits.usd_per_month)} of BENCHMARK_USD_PER_MONTH.",
            may_wait=False,
        )
    if now.live_instances >= limits.instances:
        raise LimitReachedError(
            f"{now.live_instances} instances are live, as many as BENCHMARK_INSTANCES allows "
            f"({limits.instances}).",
            may_wait=True,
        )
    in_region = now.live_by_region.get(region, 0)
    if in_region >= limits.instances_per_region:
        raise LimitReachedError(
            f"{in_region} instances are live in {region}, as many as "
            f"BENCHMARK_INSTANCES_PER_REGION allows ({limits.instances_per_region}).",
            may_wait=True,
        )
    if now.usd_per_hour + usd_per_hour > limits.usd_per_hour:
        raise LimitReachedError(
            f"The live instances cost {usd_text(now.usd_per_hour)} an hour; one for "
            f"{usd_text(usd_per_hour)} more would pass the {usd_text(limits.usd_per_hour)} of "
            "BENCHMARK_USD_PER_HOUR.",
            may_wait=True,
        )
    return amount


def settle(instance: CloudInstance) -> Decimal:
    """Write what an instance cost and return it; asking again gives the same.

    From launch to termination, by the second and for a minute at least, at the price at launch.
    Disks and traffic, some percent of it, are not counted. An instance that was never launched
    cost nothing.
    """
    end = instance.terminated_at or timezone.now()
    cost_usd = cost_until(instance, end)
    CloudInstance.objects.filter(pk=instance.pk).update(cost_usd=cost_usd)
    instance.cost_usd = cost_usd
    return cost_usd


def settle_open_books() -> int:
    """Settle instances that ended without it, as when a worker died in between; how many."""
    ended = CloudInstance.objects.exclude(state__in=CloudInstance.LIVE_STATES)
    open_books = list(ended.filter(cost_usd__isnull=True))
    for instance in open_books:
        settle(instance)
    return len(open_books)


def cost_until(instance: CloudInstance, end: datetime) -> Decimal:
    """US dollars from the launch until ``end``, 0 before the launch."""
    if instance.launched_at is None:
        return Decimal(0)
    lifetime = max(end - instance.launched_at, SMALLEST_BILLED_TIME)
    seconds = Decimal(lifetime // timedelta(seconds=1))
    return (instance.usd_per_hour * seconds / 3600).quantize(SMALLEST_AMOUNT, rounding=ROUND_UP)


def cost_so_far(instance: CloudInstance, now: datetime) -> Decimal:
    """US dollars that were settled, else those until its end or ``now``."""
    if instance.cost_usd is not None:
        return instance.cost_usd
    return cost_until(instance, instance.terminated_at or now)


def job_cost_usd(job: BenchmarkJob) -> Decimal:
    """US dollars that a job's instances have cost so far."""
    now = timezone.now()
    return _sum(cost_so_far(instance, now) for instance in job.instances.all())


def month_start(now: datetime) -> datetime:
    """When the calendar month (UTC) began, for which the monthly limit holds."""
    return now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def instances_ended_since(start: datetime) -> QuerySet[CloudInstance]:
    """What is over and counts for the time since ``start``."""
    return CloudInstance.objects.exclude(state__in=CloudInstance.LIVE_STATES).filter(
        Q(terminated_at__gte=start) | Q(terminated_at__isnull=True, intended_at__gte=start)
    )


def _refuse_for_good(job: BenchmarkJob, usd_per_hour: Decimal, amount: Decimal) -> None:
    limits = current_limits()
    if (sentence := zero_limit()) is not None:
        raise LimitReachedError(sentence, may_wait=False)
    if usd_per_hour > limits.usd_per_hour:
        raise LimitReachedError(
            f"The machine costs {usd_text(usd_per_hour)} an hour, more than the "
            f"{usd_text(limits.usd_per_hour)} of BENCHMARK_USD_PER_HOUR.",
            may_wait=False,
        )
    total = amount + _committed_to(job)
    if total > limits.usd_per_job:
        raise LimitReachedError(
            f"The job may cost {usd_text(total)}, more than the {usd_text(limits.usd_per_job)} of "
            "BENCHMARK_USD_PER_JOB.",
            may_wait=False,
        )
    if job.maximum_usd is not None and total > job.maximum_usd:
        raise LimitReachedError(
            f"The job may cost {usd_text(total)}, more than the {usd_text(job.maximum_usd)} that "
            "were agreed to; start a new one with a higher maximum.",
            may_wait=False,
        )


def _committed_to(job: BenchmarkJob) -> Decimal:
    """What earlier launches of the job have cost or may cost."""
    committed = job.instances.aggregate(total=Sum(Coalesce("cost_usd", "reserved_usd")))
    return committed["total"] or Decimal(0)


def _spent_since(start: datetime) -> Decimal:
    """The cost of what has ended since ``start``; its reservation where that is not settled yet."""
    spent = instances_ended_since(start).aggregate(total=Sum(Coalesce("cost_usd", "reserved_usd")))
    return spent["total"] or Decimal(0)


def _lock() -> None:
    """Let one launch at a time through until the end of the caller's transaction.

    SQLite needs none: our transactions there take the database's write lock when they begin.
    """
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("reserve needs the caller's transaction")
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK_NUMBER])


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0))
