"""Which recorded price a forecast uses, and what has to be said about it."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from benchmarking.models import Machine, Price

_YEAR_MONTH_DAY = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")


@dataclass(frozen=True, slots=True)
class ChosenPrice:
    """The price that a cost is computed from; ``as_of`` is ``None`` where nobody knows its date."""

    usd_per_hour: Decimal
    kind: str
    region: str
    as_of: str | None
    latest_date: date | None
    notional: bool
    source: str


def latest_date(as_of: str) -> date | None:
    """The last day that a date or period speaks of: ``2018/2019`` gives 2019-12-31.

    ``None`` where ``as_of`` holds no year.
    """
    latest = None
    for year, month, day in _YEAR_MONTH_DAY.findall(as_of):
        month_number = int(month) if month else 12
        try:
            last_day = calendar.monthrange(int(year), month_number)[1]
            found = date(int(year), month_number, int(day) if day else last_day)
        except ValueError:
            continue
        latest = max(latest, found) if latest else found
    return latest


def region_for(machine: Machine, region: str, regions_of_provider: Iterable[str]) -> str:
    """The region whose price counts: the asked one where the provider has it, else the machine's.

    Providers name their regions differently, so a comparison over clouds cannot ask for one name.
    """
    if region in set(regions_of_provider) or not machine.region:
        return region
    return machine.region


def choose_price(prices: Sequence[Price], kind: str, region: str) -> ChosenPrice | None:
    """The newest price in US dollars of that kind and region, by its date; a real one before a
    notional one, a dated one before an undated one. ``None`` where there is none.
    """
    fitting = [
        price
        for price in prices
        if price.kind == kind and price.region == region and price.currency == "USD"
    ]
    if not fitting:
        return None
    best = max(
        fitting,
        key=lambda price: (
            not price.notional,
            latest_date(price.as_of) or date.min,
            price.recorded_at,
            price.pk or 0,
        ),
    )
    return ChosenPrice(
        usd_per_hour=best.usd_per_hour,
        kind=best.kind,
        region=best.region,
        as_of=best.as_of or None,
        latest_date=latest_date(best.as_of),
        notional=best.notional,
        source=best.source,
    )
