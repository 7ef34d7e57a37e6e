"""Bring prices up to date: append what changed, retire what is gone, keep what cannot be asked.

A price becomes a new row when it changed, and when the newest row of the same price is older than
``CONFIRM_AFTER``: so that a page never shows an old date for a price that is checked every day,
and history does not fill with copies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal

from django.db import transaction
from django.utils import timezone

from benchmarking.models import Machine, Price
from benchmarking.prices.source import (
    MissingCredentialsError,
    Offer,
    PriceSource,
    PriceSourceError,
)

CONFIRM_AFTER = timedelta(days=30)
_SMALLEST_STEP = Decimal("0.000001")
_LONGEST_NOTE = 300


@dataclass(slots=True)
class RefreshReport:
    """What a refresh did, one line each, in words for an operator."""

    added: list[str] = field(default_factory=list)
    unchanged: int = 0
    retired: list[str] = field(default_factory=list)
    offered_again: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def refresh_prices(
    source: PriceSource,
    *,
    regions: Sequence[str] = (),
    kinds: Sequence[Price.Kind] = tuple(Price.Kind),
) -> RefreshReport:
    """Ask a cloud for the prices of the machines known here, and store them.

    ``regions`` defaults to those that a machine or a price of this provider names already. Raises
    ``MissingCredentialsError`` at once, with nothing stored; any other failure of a region is
    reported, and its old prices stay with their dates.
    """
    machines = {
        machine.instance_type: machine
        for machine in Machine.objects.filter(provider=source.provider)
    }
    report = RefreshReport()
    listed: dict[str, set[str]] = {}
    for region in regions or known_regions(source.provider):
        for kind in kinds:
            try:
                offers = _ask(source, region, kind, machines.keys())
            except MissingCredentialsError:
                raise
            except PriceSourceError as error:
                kept = _describe_kept_prices(source.provider, region, kind)
                report.failed.append(f"{region} {kind}: not refreshed, {error}; {kept}")
                continue
            _store_offers(offers, machines, report)
            if kind == Price.Kind.ON_DEMAND:
                listed[region] = {offer.instance_type for offer in offers}
    _retire_vanished(machines.values(), listed, report)
    return report


def known_regions(provider: str) -> list[str]:
    """The regions that machines or prices of a provider name, in order."""
    of_machines = Machine.objects.filter(provider=provider).exclude(region="")
    of_prices = Price.objects.filter(machine__provider=provider)
    return sorted(
        set(of_machines.values_list("region", flat=True))
        | set(of_prices.values_list("region", flat=True).order_by())
    )


def _ask(
    source: PriceSource, region: str, kind: Price.Kind, instance_types: Collection[str]
) -> list[Offer]:
    offers = source.list_offers(region=region, kind=kind, instance_types=instance_types)
    if not offers:
        # Every machine gone at once is a wrong answer, not a cloud that closed overnight.
        raise PriceSourceError(f"none of {len(instance_types)} known machines is listed")
    return offers


@transaction.atomic
def _store_offers(
    offers: Iterable[Offer], machines: dict[str, Machine], report: RefreshReport
) -> None:
    today = timezone.localdate()
    for offer in offers:
        machine = machines[offer.instance_type]
        usd_per_hour = offer.usd_per_hour.quantize(_SMALLEST_STEP)
        if usd_per_hour == 0:
            continue
        newest = (
            Price.objects.filter(machine=machine, kind=offer.kind, region=offer.region)
            .order_by("-as_of", "-recorded_at", "-id")
            .first()
        )
        if newest and newest.usd_per_hour == usd_per_hour and _is_recent(newest.as_of, today):
            report.unchanged += 1
            continue
        price, created = Price.objects.get_or_create(
            machine=machine,
            kind=offer.kind,
            region=offer.region,
            as_of=today.isoformat(),
            source=offer.source,
            defaults={"usd_per_hour": usd_per_hour},
        )
        if price.usd_per_hour != usd_per_hour:
            report.failed.append(
                f"{offer.region} {offer.kind}: {machine.slug} is {usd_per_hour} USD/h now and was "
                f"{price.usd_per_hour} earlier today in the same list; the earlier price stays"
            )
            continue
        if not created:
            report.unchanged += 1
            continue
        before = f", was {newest.usd_per_hour} ({newest.as_of or 'undated'})" if newest else ""
        report.added.append(
            f"{machine.slug} {offer.region} {offer.kind}: {price.usd_per_hour} USD/h{before}"
        )


def _is_recent(as_of: str, today: date) -> bool:
    try:
        return today - date.fromisoformat(as_of) < CONFIRM_AFTER
    except ValueError:
        return False


def _retire_vanished(
    machines: Iterable[Machine], listed: dict[str, set[str]], report: RefreshReport
) -> None:
    offered = set().union(*listed.values())
    once_priced = set(
        Price.objects.filter(kind=Price.Kind.ON_DEMAND).values_list("machine_id", flat=True)
    )
    for machine in machines:
        is_current = machine.availability == Machine.Availability.CURRENT
        if machine.instance_type in offered:
            if not is_current:
                report.offered_again.append(
                    f"{machine.slug} is retired here and listed again: set it to current in the "
                    "admin if it can be rented"
                )
        elif is_current and machine.region in listed and machine.pk in once_priced:
            _retire(machine)
            report.retired.append(f"{machine.slug}: gone from the list of {machine.region}")


def _retire(machine: Machine) -> None:
    told = f"Gone from the price list of {machine.region} on {timezone.localdate().isoformat()}."
    note = f"{machine.note} {told}".strip()
    Machine.objects.filter(pk=machine.pk, availability=Machine.Availability.CURRENT).update(
        availability=Machine.Availability.RETIRED,
        note=note if len(note) <= _LONGEST_NOTE else told,
    )


def _describe_kept_prices(provider: str, region: str, kind: Price.Kind) -> str:
    dates = sorted(
        Price.objects.filter(machine__provider=provider, region=region, kind=kind)
        .order_by()
        .values_list("as_of", flat=True)
    )
    if not dates:
        return "there are no older prices"
    return f"its {len(dates)} prices stay, the newest as of {dates[-1] or 'an unknown date'}"
