"""The protocol between refreshing prices and a cloud that publishes them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from benchmarking.models import Price


class PriceSourceError(Exception):
    """The prices of one region cannot be read; the message is one line that says why."""


class MissingCredentialsError(PriceSourceError):
    """Nothing can be read from this cloud: it has no credentials, or they are refused."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A machine type on offer now; ``source`` says where the price stands, with its version."""

    instance_type: str
    region: str
    kind: Price.Kind
    usd_per_hour: Decimal
    source: str


class PriceSource(Protocol):
    """A cloud's current prices; ``provider`` is the name that its machines bear."""

    provider: str

    @property
    def regions(self) -> tuple[str, ...]:
        """The names of all regions of the cloud, in order."""
        ...

    def list_offers(
        self, *, region: str, kind: Price.Kind, instance_types: Collection[str]
    ) -> list[Offer]:
        """What the cloud asks now in a region for some types; a type not on offer is left out.

        Raises ``PriceSourceError`` if the answer is not complete.
        """
        ...
