"""The price that a forecast uses, and what has to be said about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from benchmarking.models import Price

_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")


@dataclass(frozen=True, slots=True)
class ChosenPrice:
    """The price that a cost is computed from; ``as_of`` is ``None`` where nobody knows its date."""

    usd_per_hour: Decimal
    kind: str
    region: str
    as_of: str | None
    first_day: date | None
    notional: bool
    source: str

    @classmethod
    def from_price(cls, price: Price) -> ChosenPrice:
        """What a forecast needs to know of a recorded price."""
        return cls(
            usd_per_hour=price.usd_per_hour,
            kind=price.kind,
            region=price.region,
            as_of=price.as_of or None,
            first_day=first_day(price.as_of),
            notional=price.notional,
            source=price.source,
        )


def first_day(as_of: str) -> date | None:
    """The first day of a date or period: ``2018/2019`` gives 2018-01-01, for nobody knows that
    a price of a period held until its end. ``None`` where ``as_of`` holds no date.
    """
    match = _DATE.match(as_of)
    if match is None:
        return None
    year, month, day = match.groups()
    try:
        return date(int(year), int(month or 1), int(day or 1))
    except ValueError:
        return None
