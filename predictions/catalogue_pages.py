"""What the machine and architecture pages show: reads, with the words already chosen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarking.catalogue.selectors import newest_price, newest_prices
from benchmarking.image_sizes import usual_image_size
from benchmarking.models import Architecture, ArchitectureLayer, Machine, Price
from benchmarking.suggestions import closest_names
from predictions.display import format_gib
from predictions.prices import ChosenPrice
from predictions.query import DEFAULT_PRICE_KIND, DEFAULT_REGION

# A page is no archive: beyond these, the API lists them all.
MAX_QUOTATIONS = 500


@dataclass(frozen=True, slots=True)
class MachineLine:
    """A machine in the list, with the price on demand of its own region."""

    slug: str
    provider: str
    device: str
    device_count: int
    usable_memory: str
    memory_gib: float | None
    retired: bool
    price: ChosenPrice | None


@dataclass(frozen=True, slots=True)
class ArchitectureLine:
    """A CNN in the list, described at its usual image size."""

    slug: str
    image_size: int
    image_sizes: tuple[int, ...]
    family: str
    million_parameters: float
    billion_flops: float
    saved_mib_per_example: float


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure with its name, and what has to be said beside it."""

    name: str
    value: str
    beside: str = ""


def machine_lines(search: str = "") -> list[MachineLine]:
    """Machines whose name, provider or device holds every word of ``search``, retired ones last.

    A device is known by its name, its slug and its generation, such as Ampere.
    """
    by_name = Machine.objects.select_related("device").order_by("availability", "provider", "slug")
    machines = list(by_name)
    prices = newest_prices([machine.pk for machine in machines], DEFAULT_PRICE_KIND, DEFAULT_REGION)
    return [
        _machine_line(machine, prices.get(machine.pk))
        for machine in machines
        if _holds(search, _words_of(machine))
    ]


def similar_machine_word(search: str) -> str:
    """A word that finds a machine and is spelt like the last of ``search``; often empty."""
    machines = Machine.objects.select_related("device")
    return _similar_word(search, (word for one in machines for word in _words_of(one).split()))


def similar_architecture_word(search: str) -> str:
    """A word that finds a CNN and is spelt like the last of ``search``; often empty."""
    names = Architecture.objects.public().values_list("slug", "family")
    return _similar_word(search, (word for pair in names for word in pair))


def newest_quotations(machine: Machine) -> list[Price]:
    """The recorded prices of a machine, newest first, at most ``MAX_QUOTATIONS``."""
    return list(machine.prices.order_by("-as_of", "-recorded_at", "-pk")[:MAX_QUOTATIONS])


def price_of(machine: Machine) -> ChosenPrice | None:
    """The price on demand that a forecast takes unless it is asked for another."""
    price = newest_price(machine, DEFAULT_PRICE_KIND, DEFAULT_REGION)
    return ChosenPrice.from_price(price) if price else None


def machines_with_the_device_of(machine: Machine) -> list[Machine]:
    """Other machines with the same device, those that can be rented first."""
    return list(
        Machine.objects.filter(device=machine.device_id)
        .exclude(pk=machine.pk)
        .order_by("availability", "device_count", "slug")
    )


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


def facts_of(architecture: Architecture, layers: Sequence[ArchitectureLayer]) -> list[Fact]:
    """The size of a CNN, public or somebody's own; ``layers`` are its convolution layers."""
    convolutions = sum(use.count for use in layers)
    return [
        Fact("Parameters", f"{architecture.parameters:,}", "weights and biases that it learns"),
        Fact(
            "FLOPs of a forward pass",
            f"{2 * architecture.multiply_adds / 1e9:,.3g} G",
            f"per example: {architecture.multiply_adds:,} multiply-adds",
        ),
        Fact(
            "Memory per example",
            _mib(architecture.saved_bytes_per_example),
            f"kept for the backward pass in FP32; {_mib(architecture.saved_bytes_amp_per_example)} "
            "in mixed precision",
        ),
        Fact("Convolutions", f"{convolutions:,}", f"of {len(layers):,} different shapes"),
        Fact("Smallest trainable batch", str(architecture.minimum_batch_size)),
    ]


def _mib(size_bytes: float) -> str:
    return f"{size_bytes / 2**20:,.3g} MiB"


def _architecture_line(slug: str, traced: dict[int, Architecture]) -> ArchitectureLine:
    usual = traced[usual_image_size(slug, tuple(traced))]
    return ArchitectureLine(
        slug,
        usual.image_size,
        tuple(sorted(traced)),
        usual.family,
        usual.parameters / 1e6,
        2 * usual.multiply_adds / 1e9,
        usual.saved_bytes_per_example / 2**20,
    )


def _machine_line(machine: Machine, price: Price | None) -> MachineLine:
    memory = machine.device.usable_memory_mib
    return MachineLine(
        slug=machine.slug,
        provider=machine.provider,
        device=machine.device.name,
        device_count=machine.device_count,
        usable_memory=format_gib(memory) if memory else "",
        memory_gib=machine.memory_gib,
        retired=machine.availability == Machine.Availability.RETIRED,
        price=ChosenPrice.from_price(price) if price else None,
    )


def _words_of(machine: Machine) -> str:
    device = machine.device
    return f"{machine.slug} {machine.provider} {device.name} {device.slug} {device.architecture}"


def _similar_word(search: str, known: Iterable[str]) -> str:
    words = search.split()
    close = closest_names(words[-1], known, most=1) if words else []
    return close[0] if close else ""


def _holds(search: str, text: str) -> bool:
    lowered = text.lower()
    return all(word in lowered for word in search.lower().split())
