"""What a job is expected to take and cost, and what at most: said before anybody confirms it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_UP, Decimal

from django.conf import settings
from django.utils import timezone

from benchmarking.catalogue.selectors import newest_price
from benchmarking.hosts.ec2.options import launch_regions
from benchmarking.jobs.deadlines import instance_lifetime, job_time
from benchmarking.models import BenchmarkJob, Machine, Price
from benchmarking.money import usd_text

HostKind = BenchmarkJob.HostKind

# A plan's time is an estimate: the probe's time budget lets it be wrong by this factor.
BUDGET_FACTOR = 3
SMALLEST_BUDGET_SECONDS = 3600.0
SMALLEST_PAID_BUDGET_SECONDS = 1800.0
# An instance with a GPU boots, answers and loads torch in about this time.
USUAL_BOOT_SECONDS = 240.0
# Less than this measures too little for what booting costs.
SHORTEST_USEFUL_SECONDS = 300.0

_CENT = Decimal("0.01")


class JobRefusedError(ValueError):
    """There will be no such job; the message is one sentence for the operator."""


@dataclass(frozen=True, slots=True)
class JobQuote:
    """Time and money of a job.

    Attributes
    ----------
    expected_seconds
        Of measuring.
    boot_seconds
        Usual time before measuring begins; 0 where no machine is launched.
    time_budget_seconds
        When the probe ends by itself, whatever is left.
    maximum_hours
        From the launch to the release of the host, at most.
    price
        What the money is counted with: of the regions that may be launched in, the dearest one's.
    expected_usd, maximum_usd
        ``None``, as ``price``, where nothing is paid.
    deadline
        When measuring ends at the latest if the job starts now.
    """

    expected_seconds: float
    boot_seconds: float
    time_budget_seconds: float
    maximum_hours: Decimal
    price: Price | None
    expected_usd: Decimal | None
    maximum_usd: Decimal | None
    deadline: datetime

    @property
    def usd_per_hour(self) -> Decimal | None:
        """US dollars an hour, ``None`` where nothing is paid."""
        return None if self.price is None else self.price.usd_per_hour

    @property
    def is_cut_short(self) -> bool:
        """Whether the budget ends it before everything is expected to be measured."""
        return self.time_budget_seconds < self.expected_seconds


def usual_boot_seconds(host_kind: str) -> float:
    """Usual time from a launch until measuring begins; 0 where no machine is launched."""
    return USUAL_BOOT_SECONDS if host_kind == HostKind.EC2 else 0.0


def quote_job(
    *,
    machine: Machine,
    expected_seconds: float,
    host_kind: str = HostKind.LOCAL,
    price_kind: str = Price.Kind.ON_DEMAND,
    maximum_hours: float | None = None,
    maximum_usd: Decimal | None = None,
) -> JobQuote:
    """Time and money of measuring for ``expected_seconds``.

    Parameters
    ----------
    maximum_hours
        The probe's time budget; by default three times what is expected.
    maximum_usd
        What the job may cost; by default the setting ``BENCHMARK_USD_PER_JOB``. The time budget
        is cut to what that pays for.

    Raises
    ------
    JobRefusedError
        For a machine that cannot be rented or has no price, and for a maximum that is above the
        limit or pays for nothing.
    """
    is_paid = host_kind == HostKind.EC2
    smallest = SMALLEST_PAID_BUDGET_SECONDS if is_paid else SMALLEST_BUDGET_SECONDS
    budget_seconds = (
        maximum_hours * 3600
        if maximum_hours is not None
        else max(smallest, BUDGET_FACTOR * expected_seconds)
    )
    if not is_paid:
        return _quote(host_kind, expected_seconds, budget_seconds, price=None)
    price = _dearest_price(machine, price_kind)
    usd_per_hour = price.usd_per_hour
    limit_usd = _limit_usd(maximum_usd)
    overhead_seconds = instance_lifetime(0.0).total_seconds()
    # Rounded down, for what it costs at most is rounded up.
    affordable_seconds = math.floor(float(limit_usd / usd_per_hour) * 3600 - overhead_seconds) - 1
    shortest = min(SHORTEST_USEFUL_SECONDS, budget_seconds)
    if affordable_seconds < shortest:
        needed = _cents(usd_per_hour * _hours(overhead_seconds + shortest))
        raise JobRefusedError(
            f"{usd_text(limit_usd)} are too little: booting and the shortest useful run on "
            f"{machine} at {usd_per_hour.normalize():f} USD an hour need {needed} USD."
        )
    return _quote(
        host_kind,
        expected_seconds,
        min(budget_seconds, affordable_seconds),
        price=price,
        limit_usd=limit_usd,
    )


def _dearest_price(machine: Machine, price_kind: str) -> Price:
    if machine.availability == Machine.Availability.RETIRED:
        raise JobRefusedError(f"{machine} cannot be rented any more; choose another machine.")
    regions = launch_regions(machine)
    prices = [price for region in regions if (price := newest_price(machine, price_kind, region))]
    if not prices:
        raise JobRefusedError(
            f"No {Price.Kind(price_kind).label.lower()} price of {machine} is known in "
            f"{', '.join(regions) or 'any region'}; refresh_prices fetches prices, and the admin "
            "takes them."
        )
    return max(prices, key=lambda price: price.usd_per_hour)


def _limit_usd(maximum_usd: Decimal | None) -> Decimal:
    limit: Decimal = settings.BENCHMARK_USD_PER_JOB
    if maximum_usd is None:
        return limit
    if maximum_usd > limit:
        raise JobRefusedError(
            f"A job may cost at most {usd_text(limit)} (BENCHMARK_USD_PER_JOB), not "
            f"{usd_text(maximum_usd)}."
        )
    if not maximum_usd > 0:
        raise JobRefusedError("The most that a job may cost must be above 0 USD.")
    return maximum_usd


def _quote(
    host_kind: str,
    expected_seconds: float,
    budget_seconds: float,
    *,
    price: Price | None,
    limit_usd: Decimal = Decimal(0),
) -> JobQuote:
    is_paid = price is not None
    until_deadline = job_time(host_kind, budget_seconds)
    longest = instance_lifetime(budget_seconds) if is_paid else until_deadline
    boot_seconds = usual_boot_seconds(host_kind)
    maximum_hours = _hours(longest.total_seconds())
    expected_usd = maximum_usd = None
    if price is not None:
        measuring_seconds = min(expected_seconds, budget_seconds)
        expected_usd = _cents(price.usd_per_hour * _hours(boot_seconds + measuring_seconds))
        maximum_usd = min(limit_usd, _cents(price.usd_per_hour * maximum_hours))
    return JobQuote(
        expected_seconds=expected_seconds,
        boot_seconds=boot_seconds,
        time_budget_seconds=budget_seconds,
        maximum_hours=maximum_hours,
        price=price,
        expected_usd=expected_usd,
        maximum_usd=maximum_usd,
        deadline=timezone.now() + until_deadline,
    )


def _hours(seconds: float) -> Decimal:
    return (Decimal(seconds) / 3600).quantize(Decimal("0.0001"), rounding=ROUND_UP)


def _cents(amount: Decimal) -> Decimal:
    return amount.quantize(_CENT, rounding=ROUND_UP)
