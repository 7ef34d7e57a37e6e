"""What the machine and architecture pages show: reads, with the words already chosen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count

from benchmarking.models import (
    Architecture,
    ArchitectureLayer,
    IterationTiming,
    Machine,
    MeasurementRun,
    Price,
)
from predictions.display import format_exact_usd
from predictions.prices import ChosenPrice, choose_price
from predictions.query import DEFAULT_PRICE_KIND, DEFAULT_REGION


@dataclass(frozen=True, slots=True)
class MachineLine:
    """A machine in the list, with the price on demand of its own region."""

    slug: str
    provider: str
    device: str
    device_count: int
    memory_gib: float | None
    retired: bool
    price: ChosenPrice | None

    @property
    def price_text(self) -> str:
        """Dollars an hour, as quoted."""
        return f"{format_exact_usd(float(self.price.usd_per_hour))}/h" if self.price else ""


@dataclass(frozen=True, slots=True)
class ArchitectureLine:
    """A CNN at one image size in the list."""

    slug: str
    image_size: int
    family: str
    million_parameters: float
    billion_multiply_adds: float
    saved_mib_per_example: float


@dataclass(frozen=True, slots=True)
class MeasuredLine:
    """How many whole iterations of what were timed, where and with which stack."""

    name: str
    stack: str
    timings: int


def machine_lines(search: str = "") -> list[MachineLine]:
    """Machines whose name, provider or device holds every word of ``search``."""
    machines = list(Machine.objects.select_related("device").order_by("provider", "slug"))
    prices: dict[int, list[Price]] = defaultdict(list)
    for price in Price.objects.filter(kind=DEFAULT_PRICE_KIND):
        prices[price.machine_id].append(price)
    return [
        _machine_line(machine, prices[machine.pk])
        for machine in machines
        if _holds(search, f"{machine.slug} {machine.provider} {machine.device.name}")
    ]


def price_history(machine: Machine) -> list[Price]:
    """Every recorded price of a machine, newest first."""
    return list(machine.prices.order_by("kind", "region", "-as_of", "-recorded_at"))


def measured_on(machine: Machine) -> list[MeasuredLine]:
    """The CNNs whose iterations were timed on a machine."""
    counted = (
        IterationTiming.objects.filter(run__machine=machine)
        .order_by()
        .values("architecture__slug", "architecture__image_size", "run__stack")
        .annotate(timings=Count("id"))
        .order_by("architecture__slug", "architecture__image_size")
    )
    stacks = _stack_labels(machine=machine)
    return [
        MeasuredLine(
            f"{row['architecture__slug']} at {row['architecture__image_size']} px",
            stacks.get(row["run__stack"], ""),
            row["timings"],
        )
        for row in counted
    ]


def architecture_lines(search: str = "") -> list[ArchitectureLine]:
    """CNNs whose name or family holds every word of ``search``."""
    return [
        ArchitectureLine(
            architecture.slug,
            architecture.image_size,
            architecture.family,
            architecture.parameters / 1e6,
            architecture.multiply_adds / 1e9,
            architecture.saved_bytes_per_example / 2**20,
        )
        for architecture in Architecture.objects.defer("operations")
        if _holds(search, f"{architecture.slug} {architecture.family}")
    ]


def layers_of(architecture: Architecture) -> list[ArchitectureLayer]:
    """The convolution layers of a CNN in the order of the network."""
    return list(architecture.uses.select_related("layer").order_by("position"))


def measured_for(architecture: Architecture) -> list[MeasuredLine]:
    """The machines on which a CNN's iterations were timed."""
    counted = (
        IterationTiming.objects.filter(architecture=architecture)
        .order_by()
        .values("run__machine__slug", "run__stack")
        .annotate(timings=Count("id"))
        .order_by("run__machine__slug")
    )
    stacks = _stack_labels()
    return [
        MeasuredLine(row["run__machine__slug"], stacks.get(row["run__stack"], ""), row["timings"])
        for row in counted
    ]


def _machine_line(machine: Machine, prices: Sequence[Price]) -> MachineLine:
    return MachineLine(
        slug=machine.slug,
        provider=machine.provider,
        device=machine.device.name,
        device_count=machine.device_count,
        memory_gib=machine.memory_gib,
        retired=machine.availability == Machine.Availability.RETIRED,
        price=choose_price(prices, DEFAULT_PRICE_KIND, machine.region or DEFAULT_REGION),
    )


def _stack_labels(machine: Machine | None = None) -> dict[int, str]:
    runs = MeasurementRun.objects.select_related("stack").order_by()
    if machine is not None:
        runs = runs.filter(machine=machine)
    return {run.stack_id: str(run.stack) for run in runs}


def _holds(search: str, text: str) -> bool:
    lowered = text.lower()
    return all(word in lowered for word in search.lower().split())
