"""The price that a forecast uses, and what has to be said about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from benchmarking.models import Price
from predictions.display import format_exact_usd


@dataclass(frozen=True, slots=True)
class ChosenPrice:
    """The price that a cost is computed from; ``as_of`` is ``None`` where nobody knows its date."""

    usd_per_hour: Decimal
    kind: str
    region: str
    as_of: str | None
    first_day: date | None
    notional: bool

    @property
    def hourly_text(self) -> str:
        """Dollars an hour, as quoted."""
        return f"{format_exact_usd(float(self.usd_per_hour))}/h"

    @classmethod
    def from_price(cls, price: Price) -> ChosenPrice:
        """What a forecast needs to know of a recorded price."""
        return cls(
            usd_per_hour=price.usd_per_hour,
            kind=price.kind,
            region=price.region,
            as_of=price.as_of or None,
            first_day=price.first_day,
            notional=price.notional,
        )
