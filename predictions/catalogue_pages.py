"""What the machine and architecture pages show: reads, with the words already chosen."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from django.db.models import Count

from benchmarking.catalogue.selectors import newest_prices
from benchmarking.image_sizes import usual_image_size
from benchmarking.models import (
    Architecture,
    ArchitectureLayer,
    IterationTiming,
    Machine,
    MeasurementRun,
    Price,
)
from predictions.display import format_exact_usd
from predictions.prices import ChosenPrice
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
    """A CNN in the list, described at its usual image size."""

    slug: str
    image_size: int
    image_sizes: tuple[int, ...]
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
    prices = newest_prices([machine.pk for machine in machines], DEFAULT_PRICE_KIND, DEFAULT_REGION)
    return [
        _machine_line(machine, prices.get(machine.pk))
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
        .exclude(architecture__source=Architecture.UPLOADED)
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
    by_slug: dict[str, dict[int, Architecture]] = defaultdict(dict)
    for architecture in Architecture.objects.public().defer("operations"):
        if _holds(search, f"{architecture.slug} {architecture.family}"):
            by_slug[architecture.slug][architecture.image_size] = architecture
    return [_architecture_line(slug, traced) for slug, traced in by_slug.items()]


def image_sizes_of(slug: str) -> list[int]:
    """Every image size that a CNN was traced at, ascending."""
    return list(
        Architecture.objects.public()
        .filter(slug=slug)
        .order_by("image_size")
        .values_list("image_size", flat=True)
    )


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


def _architecture_line(slug: str, traced: dict[int, Architecture]) -> ArchitectureLine:
    usual = traced[usual_image_size(slug, tuple(traced))]
    return ArchitectureLine(
        slug,
        usual.image_size,
        tuple(sorted(traced)),
        usual.family,
        usual.parameters / 1e6,
        usual.multiply_adds / 1e9,
        usual.saved_bytes_per_example / 2**20,
    )


def _machine_line(machine: Machine, price: Price | None) -> MachineLine:
    return MachineLine(
        slug=machine.slug,
        provider=machine.provider,
        device=machine.device.name,
        device_count=machine.device_count,
        memory_gib=machine.memory_gib,
        retired=machine.availability == Machine.Availability.RETIRED,
        price=ChosenPrice.from_price(price) if price else None,
    )


def _stack_labels(machine: Machine | None = None) -> dict[int, str]:
    runs = MeasurementRun.objects.select_related("stack").order_by()
    if machine is not None:
        runs = runs.filter(machine=machine)
    return {run.stack_id: str(run.stack) for run in runs}


def _holds(search: str, text: str) -> bool:
    lowered = text.lower()
    return all(word in lowered for word in search.lower().split())
