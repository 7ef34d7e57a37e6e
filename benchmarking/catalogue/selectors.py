"""Reads over the catalogue that pages and forecasts share."""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.db.models import Exists, F, OuterRef, QuerySet, Window
from django.db.models.functions import RowNumber

from benchmarking.models import Machine, Price

_AWS_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d+")


def newest_prices(machine_ids: Iterable[int], kind: str, region: str) -> dict[int, Price]:
    """The price that counts for each machine, by machine id; no entry where none is known.

    Region: clouds name their regions differently. A machine whose provider has the region asked
    is priced there or not at all; a machine of another provider in its own default region, which
    the price names. Among the prices of that kind there: a dated one before an undated one, then
    the newest date, where a period counts from its first day because nobody knows that it holds
    longer, then the one recorded last. One query.
    """
    newest_first = [F("as_of").desc(), F("recorded_at").desc(), F("id").desc()]
    ranked = prices_in_region(region).filter(machine_id__in=list(machine_ids), kind=kind)
    ranked = ranked.annotate(
        rank=Window(RowNumber(), partition_by=[F("machine_id")], order_by=newest_first)
    )
    return {price.machine_id: price for price in ranked.filter(rank=1).order_by()}


def newest_price(machine: Machine, kind: str, region: str) -> Price | None:
    """The price that counts for one machine, ``None`` where none is known; see above."""
    return newest_prices([machine.pk], kind, region).get(machine.pk)


def prices_in_region(region: str) -> QuerySet[Price]:
    """Prices in a region, and of other providers' machines in their default region."""
    # Text order is date order for what validate_as_of lets through, and empty comes first.
    priced_there = Price.objects.filter(
        machine__provider=OuterRef("machine__provider"), region=region
    )
    foreign = Price.objects.filter(~Exists(priced_there), region=F("machine__region"))
    if _AWS_REGION.fullmatch(region):
        foreign = foreign.exclude(machine__provider="aws")
    return Price.objects.filter(region=region) | foreign
