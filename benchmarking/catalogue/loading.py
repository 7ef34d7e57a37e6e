"""From the catalogue's files to rows, over and over, without losing what an operator changed.

A device or machine remembers what the catalogue said when it was last loaded. A value that still
equals it follows the files; one that does not was changed here, stays, and is reported. Prices
are history: a quotation is added once and never changed. Nothing is ever deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import transaction

from benchmarking.catalogue.errors import CatalogueError
from benchmarking.catalogue.fixture import Catalogue, PriceRow, read_catalogue
from benchmarking.models import Device, Machine, Price


@dataclass(slots=True)
class LoadReport:
    """What a load did: rows by kind, and values that stay because they were changed here."""

    created: dict[str, int] = field(default_factory=dict)
    updated: dict[str, int] = field(default_factory=dict)
    unchanged: dict[str, int] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether the load stored anything."""
        return any(self.created.values()) or any(self.updated.values())


def load_catalogue(directory: Path, *, overwrite: bool = False) -> LoadReport:
    """Store the catalogue of ``directory``; a second call changes nothing.

    Values that were changed here since they were loaded are kept and reported, or replaced if
    ``overwrite``. Raises ``CatalogueError`` and stores nothing if a file is not usable.
    """
    catalogue = read_catalogue(directory)
    report = LoadReport()
    with transaction.atomic():
        _store_devices(catalogue, report, overwrite)
        _store_machines(catalogue, report, overwrite)
        _store_prices(catalogue, report)
    return report


def _store_devices(catalogue: Catalogue, report: LoadReport, overwrite: bool) -> None:
    stored = Device.objects.in_bulk(list(catalogue.devices), field_name="slug")
    new, changed = [], []
    for slug, values in catalogue.devices.items():
        device = stored.get(slug)
        if device is None:
            new.append(Device(**values, shipped_values=values))
            continue
        current = {name: getattr(device, name) for name in values}
        merged, kept = _merge(values, current, device.shipped_values, overwrite)
        report.kept += [f"{slug}: {line}" for line in kept]
        if merged or device.shipped_values != values:
            for name, value in merged.items():
                setattr(device, name, value)
            device.shipped_values = dict(values)
            changed.append(device)
    fields = ["shipped_values", *next(iter(catalogue.devices.values()), ())]
    Device.objects.bulk_create(new)
    Device.objects.bulk_update(changed, [name for name in fields if name != "slug"], batch_size=50)
    _count(report, "devices", len(catalogue.devices), len(new), len(changed))


def _store_machines(catalogue: Catalogue, report: LoadReport, overwrite: bool) -> None:
    devices = Device.objects.in_bulk(field_name="slug")
    stored = Machine.objects.select_related("device").in_bulk(
        list(catalogue.machines), field_name="slug"
    )
    new, changed = [], []
    for slug, values in catalogue.machines.items():
        machine = stored.get(slug)
        if machine is None:
            row = {**values, "device": devices[values["device"]]}
            new.append(Machine(**row, shipped_values=values))
            continue
        current = {name: getattr(machine, name) for name in values} | {
            "device": machine.device.slug
        }
        merged, kept = _merge(values, current, machine.shipped_values, overwrite)
        report.kept += [f"{slug}: {line}" for line in kept]
        if merged or machine.shipped_values != values:
            for name, value in merged.items():
                setattr(machine, name, devices[value] if name == "device" else value)
            machine.shipped_values = dict(values)
            changed.append(machine)
    fields = ["shipped_values", *next(iter(catalogue.machines.values()), ())]
    Machine.objects.bulk_create(new)
    Machine.objects.bulk_update(changed, [name for name in fields if name != "slug"], batch_size=50)
    _count(report, "machines", len(catalogue.machines), len(new), len(changed))


def _merge(
    shipped: Mapping[str, Any],
    current: Mapping[str, Any],
    baseline: Mapping[str, Any],
    overwrite: bool,
) -> tuple[dict[str, Any], list[str]]:
    """Values to set, and a line for each value that was changed here and stays."""
    merged: dict[str, Any] = {}
    kept: list[str] = []
    for name, value in shipped.items():
        here = current[name]
        if here == value:
            continue
        untouched = here == baseline[name] if name in baseline else here in (None, "", {})
        if overwrite or untouched:
            merged[name] = value
        elif value not in (None, ""):
            # What the catalogue leaves open is filled in here, by a probe or an operator.
            kept.append(f"{name} stays {here!r}, the catalogue says {value!r}")
    return merged, kept


def _store_prices(catalogue: Catalogue, report: LoadReport) -> None:
    machines = dict(Machine.objects.values_list("slug", "id"))
    stored = {
        (machine, kind, region, as_of, source): usd_per_hour
        for machine, kind, region, as_of, source, usd_per_hour in Price.objects.values_list(
            "machine__slug", "kind", "region", "as_of", "source", "usd_per_hour"
        )
    }
    new = []
    for row in catalogue.prices:
        known = stored.get(row.key)
        if known is None:
            new.append(_price(row, machines[row.machine]))
        elif known != row.usd_per_hour:
            raise CatalogueError(
                f"{row.machine}: {row.source!r} was loaded with {known} USD/h as of "
                f"{row.as_of or 'an unknown date'} and now says {row.usd_per_hour}; prices are "
                "history: add a row with another date or source instead"
            )
    Price.objects.bulk_create(new)
    _count(report, "prices", len(catalogue.prices), len(new), 0)


def _price(row: PriceRow, machine_id: int) -> Price:
    return Price(
        machine_id=machine_id,
        kind=row.kind,
        region=row.region,
        usd_per_hour=row.usd_per_hour,
        as_of=row.as_of,
        source=row.source,
        notional=row.notional,
    )


def _count(report: LoadReport, kind: str, total: int, created: int, updated: int) -> None:
    report.created[kind] = created
    report.updated[kind] = updated
    report.unchanged[kind] = total - created - updated
