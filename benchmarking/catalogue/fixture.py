"""Reading the catalogue's JSON files: a list of objects each, checked before anything is stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Choices, Model

from benchmarking.catalogue.errors import CatalogueError, describe_error
from benchmarking.models import Device, Machine, Price
from benchmarking.suggestions import did_you_mean

DEVICE_FILES = ("devices.json", "cpus.json")
MACHINE_FILE = "machines.json"
PRICE_FILE = "prices.json"

_DEVICE_REQUIRED = ("slug", "name", "kind")
_MACHINE_REQUIRED = ("slug", "provider", "instance_type", "device")
_PRICE_REQUIRED = ("machine", "kind", "region", "usd_per_hour", "as_of", "source")
_NOT_SHIPPED = ("id", "shipped_values", "recorded_at")


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One quotation of a price file; ``machine`` is a slug, ``as_of`` may be empty."""

    machine: str
    kind: str
    region: str
    usd_per_hour: Decimal
    as_of: str
    source: str
    notional: bool

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """What makes a quotation unique."""
        return (self.machine, self.kind, self.region, self.as_of, self.source)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Checked rows: field values of devices and machines by slug, and prices."""

    devices: Mapping[str, Mapping[str, Any]]
    machines: Mapping[str, Mapping[str, Any]]
    prices: tuple[PriceRow, ...]


def read_catalogue(directory: Path) -> Catalogue:
    """Read and check all files of a catalogue.

    Raises ``CatalogueError`` that names the file and the row on anything that is not allowed.
    """
    devices: dict[str, Mapping[str, Any]] = {}
    for name in DEVICE_FILES:
        for place, row in _rows(directory / name):
            values = _device_values(row, place)
            _add(devices, values, place)
    machines: dict[str, Mapping[str, Any]] = {}
    for place, row in _rows(directory / MACHINE_FILE):
        values = _machine_values(row, place, devices)
        _add(machines, values, place)
    prices = tuple(_price_row(row, place, machines) for place, row in _rows(directory / PRICE_FILE))
    _refuse_repeated_prices(prices, directory / PRICE_FILE)
    return Catalogue(devices=devices, machines=machines, prices=prices)


def _rows(path: Path) -> Iterable[tuple[str, dict[str, Any]]]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except OSError as error:
        raise CatalogueError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CatalogueError(f"{path}: is not JSON: {error}") from error
    if not isinstance(document, list):
        raise CatalogueError(f"{path}: must hold a list of objects")
    for number, row in enumerate(document, start=1):
        place = f"{path.name} row {number}"
        if not isinstance(row, dict):
            raise CatalogueError(f"{place}: must be an object")
        name = row.get("slug") or row.get("machine")
        yield (f"{place} ({name})" if name else place), row


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no finite number")


def _add(table: dict[str, Mapping[str, Any]], values: Mapping[str, Any], place: str) -> None:
    if values["slug"] in table:
        raise CatalogueError(f"{place}: the slug appears twice")
    table[values["slug"]] = values


def _device_values(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    _check_keys(row, place, _DEVICE_REQUIRED, shipped_fields(Device))
    return _clean_values(Device(**row), place)


def _machine_values(
    row: Mapping[str, Any], place: str, devices: Mapping[str, Any]
) -> dict[str, Any]:
    _check_keys(row, place, _MACHINE_REQUIRED, shipped_fields(Machine))
    _check_known(row["device"], devices, f"{place}: device")
    fields = {name: value for name, value in row.items() if name != "device"}
    values = _clean_values(Machine(**fields), place, exclude={"device"})
    return values | {"device": row["device"]}


def _price_row(row: Mapping[str, Any], place: str, machines: Mapping[str, Any]) -> PriceRow:
    _check_keys(row, place, _PRICE_REQUIRED, {"currency", *shipped_fields(Price)})
    _check_known(row["machine"], machines, f"{place}: machine")
    if row.get("currency", "USD") != "USD":
        raise CatalogueError(f"{place}: currency must be USD")
    fields = {name: value for name, value in row.items() if name != "machine"}
    try:
        fields["usd_per_hour"] = Decimal(str(row["usd_per_hour"]))
    except InvalidOperation:
        raise CatalogueError(f"{place}: usd_per_hour must be a number") from None
    price = Price(**fields)
    _clean_values(price, place, exclude={"machine"})
    return PriceRow(
        machine=row["machine"],
        kind=price.kind,
        region=price.region,
        usd_per_hour=price.usd_per_hour,
        as_of=price.as_of,
        source=price.source,
        notional=price.notional,
    )


def _refuse_repeated_prices(prices: Iterable[PriceRow], path: Path) -> None:
    seen = set()
    for price in prices:
        if price.key in seen:
            raise CatalogueError(
                f"{path.name}: the {price.kind} price of {price.machine} in {price.region} as of "
                f"{price.as_of or 'an unknown date'} appears twice with the same source"
            )
        seen.add(price.key)


def shipped_fields(model: type[Model]) -> tuple[str, ...]:
    """The fields of a model that a catalogue file may hold."""
    return tuple(
        field.name for field in model._meta.concrete_fields if field.name not in _NOT_SHIPPED
    )


def _check_keys(
    row: Mapping[str, Any], place: str, required: Iterable[str], allowed: Iterable[str]
) -> None:
    if missing := [name for name in required if name not in row]:
        raise CatalogueError(f"{place}: lacks {', '.join(missing)}")
    if unknown := sorted(row.keys() - set(allowed)):
        raise CatalogueError(
            f"{place}: does not know {', '.join(unknown)}; allowed: {', '.join(sorted(allowed))}"
        )


def _check_known(slug: Any, table: Mapping[str, Any], place: str) -> None:
    if slug in table:
        return
    hint = did_you_mean(str(slug), table)
    raise CatalogueError(f"{place} {slug!r} is not in the catalogue{hint}")


def _clean_values(
    instance: Device | Machine | Price, place: str, exclude: set[str] | None = None
) -> dict[str, Any]:
    try:
        instance.clean_fields(exclude=exclude)
        instance.clean()
    except ValidationError as error:
        raise CatalogueError(f"{place}: {describe_error(error)}") from error
    names = [name for name in shipped_fields(type(instance)) if name not in (exclude or ())]
    values = {name: getattr(instance, name) for name in names}
    return {
        name: value.value if isinstance(value, Choices) else value for name, value in values.items()
    }
