"""Whether the catalogue in the database can be trusted to answer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from django.core.exceptions import ValidationError

from benchmarking.catalogue.errors import describe_error
from benchmarking.models import Architecture, Device, Machine, Price
from benchmarking.specs import DeviceKind

# Facts that each row of the specification needs for an estimate on a GPU that nobody measured.
_NEEDED_SPECIFICATION = (
    "usable_memory_mib",
    "fp32_tflops",
    "bandwidth_gb_s",
    "multiprocessors",
    "clock_mhz",
    "compute_capability",
)
LOCAL_PROVIDER = "local"


@dataclass(frozen=True, slots=True)
class CatalogueCheck:
    """Counts by name, in the order to print them, and a line for each thing that is wrong."""

    counts: dict[str, int]
    problems: tuple[str, ...]


def check_catalogue() -> CatalogueCheck:
    """Check every device, machine and price that the database holds."""
    devices = list(Device.objects.all())
    machines = list(Machine.objects.select_related("device"))
    prices: dict[int, list[Price]] = defaultdict(list)
    for price in Price.objects.select_related("machine"):
        prices[price.machine_id].append(price)
    problems = []
    if not machines:
        problems.append("there are no machines: run load_catalogue")
    for device in devices:
        problems += [f"device {device.slug}: {line}" for line in _device_problems(device)]
    for machine in machines:
        lines = _machine_problems(machine, prices[machine.pk])
        problems += [f"machine {machine.slug}: {line}" for line in lines]
    every_price = [price for rows in prices.values() for price in rows]
    for price in every_price:
        problems += [f"price {price}: {line}" for line in _price_problems(price)]
    return CatalogueCheck(
        counts={
            "devices": len(devices),
            "GPUs": sum(device.kind == DeviceKind.CUDA for device in devices),
            "machines": len(machines),
            "current": sum(_is_current(machine) for machine in machines),
            "retired": sum(not _is_current(machine) for machine in machines),
            "prices": len(every_price),
            "undated prices": sum(not price.as_of for price in every_price),
            "machines with a dated price": sum(
                any(price.as_of for price in prices[machine.pk]) for machine in machines
            ),
            "machines with no price known": sum(not prices[machine.pk] for machine in machines),
            "architectures": Architecture.objects.count(),
        },
        problems=tuple(problems),
    )


def _device_problems(device: Device) -> list[str]:
    problems = _validation_problems(device)
    if device.kind != DeviceKind.CUDA:
        return problems
    for name in _NEEDED_SPECIFICATION:
        if getattr(device, name) is None:
            problems.append(f"{name} is unknown")
        elif not device.sources.get(name):
            problems.append(f"{name} has no source")
    return problems


def _machine_problems(machine: Machine, prices: list[Price]) -> list[str]:
    problems = _validation_problems(machine)
    # What this computer can allocate is known from its first measurement on.
    if machine.provider != LOCAL_PROVIDER and machine.device.usable_memory_mib is None:
        problems.append(f"nobody knows the usable memory of its device {machine.device.slug}")
    if not machine.source:
        problems.append("its specification has no source")
    if not any(price.as_of for price in prices) and not machine.no_price_reason:
        problems.append("no dated price, and no reason why none is known")
    return problems


def _price_problems(price: Price) -> list[str]:
    problems = _validation_problems(price)
    if not price.as_of and "undated" not in price.source.lower():
        problems.append("it is undated, and its source does not say so")
    return problems


def _validation_problems(row: Device | Machine | Price) -> list[str]:
    try:
        row.clean_fields()
        row.clean()
    except ValidationError as error:
        return [describe_error(error)]
    return []


def _is_current(machine: Machine) -> bool:
    return machine.availability == Machine.Availability.CURRENT
