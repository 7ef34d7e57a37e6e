"""The sentence that is the form: what it offers, and what was typed into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarking.models import Architecture, Device, Machine
from predictions.query import (
    DEFAULT_EPOCHS,
    DEFAULT_EXAMPLES,
    OPTIMIZERS,
    PRECISIONS,
    PRICE_KINDS,
    Choices,
    ForecastQuery,
)

PRESETS = (
    (1_281_167, "ImageNet-1k"),
    (50_000, "CIFAR-10"),
    (1_803_460, "Places365"),
)
EXAMPLE_MACHINES = (
    "aws-g4dn.xlarge",
    "aws-g5.xlarge",
    "aws-g6.xlarge",
    "aws-g6e.xlarge",
    "aws-p4d.24xlarge",
    "lambda-gpu_1x_a6000",
    "lambda-gpu_1x_h100_pcie",
    "lambda-gpu_1x_h100_sxm5",
)
EXAMPLE_ARCHITECTURE = "resnet50"
FALLBACK_MACHINE = "reference-cpu"
EXAMPLE_EPOCHS = 90

PRECISION_LABELS = {
    "default": "default precision",
    "fp32": "FP32",
    "tf32": "TF32",
    "amp": "mixed precision",
}
OPTIMIZER_LABELS = {"sgd": "SGD with momentum", "adamw": "AdamW"}
PRICE_LABELS = {"on-demand": "on demand", "spot": "spot"}


@dataclass(frozen=True, slots=True)
class PickerOption:
    """One line of a picker."""

    slug: str
    detail: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class PickerGroup:
    """Lines that belong together under one heading."""

    label: str
    options: tuple[PickerOption, ...]


@dataclass(frozen=True, slots=True)
class Picker:
    """A choice of several names; ``summary`` is what stands in the sentence."""

    name: str
    summary: str
    groups: tuple[PickerGroup, ...]
    error: str = ""


@dataclass(frozen=True, slots=True)
class SelectOption:
    """One line of a plain choice."""

    value: str
    label: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class ForecastForm:
    """Everything that the template needs to draw the form.

    ``texts`` holds what was typed into the single fields, ``errors`` one sentence per field.
    """

    architectures: Picker
    machines: Picker
    devices: Picker
    texts: Mapping[str, str]
    errors: Mapping[str, str]
    precisions: tuple[SelectOption, ...]
    optimizers: tuple[SelectOption, ...]
    prices: tuple[SelectOption, ...]
    image_sizes: tuple[SelectOption, ...]
    regions: tuple[str, ...]
    presets: tuple[tuple[int, str], ...] = PRESETS
    has_more: bool = field(default=False)


_MORE_FIELDS = (
    "batch_sizes",
    "loader_images_per_second",
    "optimizer",
    "price",
    "region",
    "interruption_overhead",
    "start_minutes",
    "storage_gib",
    "storage_usd_per_gib_month",
    "max_usd",
    "max_hours",
    "max_memory_gib",
    "device",
)


def example_parameters(choices: Choices) -> dict[str, list[str]]:
    """A question worth starting from, made of what is loaded; empty where nothing is."""
    if not choices.image_sizes or not choices.machines:
        return {}
    machines = [slug for slug in EXAMPLE_MACHINES if slug in choices.machines]
    if not machines:
        machines = [
            FALLBACK_MACHINE if FALLBACK_MACHINE in choices.machines else choices.machines[0]
        ]
    architecture = (
        EXAMPLE_ARCHITECTURE
        if EXAMPLE_ARCHITECTURE in choices.image_sizes
        else min(choices.image_sizes)
    )
    return {
        "architecture": [architecture],
        "machine": machines,
        "epochs": [str(EXAMPLE_EPOCHS)],
    }


def make_form(
    parameters: Mapping[str, Sequence[str]],
    choices: Choices,
    errors: Mapping[str, str],
    query: ForecastQuery | None = None,
) -> ForecastForm:
    """The form as it stands after ``parameters`` were given."""
    texts = {name: values[-1].strip() for name, values in parameters.items() if values}
    texts["examples"] = texts.get("examples") or f"{DEFAULT_EXAMPLES:,}"
    texts["epochs"] = texts.get("epochs") or str(DEFAULT_EPOCHS)
    if query is not None:
        texts["examples"], texts["epochs"] = f"{query.examples:,}", f"{query.epochs:,}"
    chosen = {name: set(parameters.get(name, ())) for name in ("architecture", "machine", "device")}
    sizes = sorted({size for traced in choices.image_sizes.values() for size in traced})
    return ForecastForm(
        architectures=_architecture_picker(chosen["architecture"], choices, errors),
        machines=_machine_picker(chosen["machine"], errors),
        devices=_device_picker(chosen["device"], errors),
        texts=texts,
        errors=errors,
        precisions=_select(PRECISIONS, PRECISION_LABELS, texts.get("precision")),
        optimizers=_select(OPTIMIZERS, OPTIMIZER_LABELS, texts.get("optimizer")),
        prices=_select(PRICE_KINDS, PRICE_LABELS, texts.get("price")),
        image_sizes=(
            SelectOption("", "usual size", not texts.get("image_size")),
            *(
                SelectOption(str(size), f"{size} px", texts.get("image_size") == str(size))
                for size in sizes
            ),
        ),
        regions=tuple(sorted(choices.regions)),
        has_more=any(texts.get(name) or errors.get(name) for name in _MORE_FIELDS),
    )


def _select(
    values: Sequence[str], labels: Mapping[str, str], chosen: str | None
) -> tuple[SelectOption, ...]:
    return tuple(SelectOption(value, labels[value], value == chosen) for value in values)


def _architecture_picker(chosen: set[str], choices: Choices, errors: Mapping[str, str]) -> Picker:
    groups: dict[str, dict[str, PickerOption]] = {}
    if choices.own_image_sizes:
        groups["Your own"] = {
            slug: PickerOption(slug, "private", slug in chosen)
            for slug in sorted(choices.own_image_sizes)
        }
    rows = (
        Architecture.objects.public()
        .order_by("family", "slug", "image_size")
        .values_list("family", "slug", "parameters")
    )
    for family, slug, parameters in rows:
        groups.setdefault(family, {})[slug] = PickerOption(
            slug, f"{parameters / 1e6:.1f} M parameters", slug in chosen
        )
    return Picker(
        name="architecture",
        summary=_chosen_summary(chosen, "CNN", "choose a CNN"),
        groups=tuple(
            PickerGroup(family, tuple(options.values())) for family, options in groups.items()
        ),
        error=errors.get("architecture", ""),
    )


def _machine_picker(chosen: set[str], errors: Mapping[str, str]) -> Picker:
    groups: dict[str, list[PickerOption]] = {}
    rows = Machine.objects.order_by("provider", "slug").values_list(
        "provider", "slug", "device__name", "device_count", "availability"
    )
    for provider, slug, device, count, availability in rows:
        detail = f"{count} x {device}" if count > 1 else device
        if availability == Machine.Availability.RETIRED:
            detail += ", retired"
        groups.setdefault(provider, []).append(PickerOption(slug, detail, slug in chosen))
    return Picker(
        name="machine",
        summary=_chosen_summary(chosen, "machine", "choose machines"),
        groups=tuple(PickerGroup(provider, tuple(found)) for provider, found in groups.items()),
        error=errors.get("machine", ""),
    )


def _device_picker(chosen: set[str], errors: Mapping[str, str]) -> Picker:
    rows = Device.objects.order_by("slug").values_list("slug", "name")
    return Picker(
        name="device",
        summary=_chosen_summary(chosen, "device", "none"),
        groups=(
            PickerGroup(
                "Devices alone, without a price",
                tuple(PickerOption(slug, name, slug in chosen) for slug, name in rows),
            ),
        ),
        error=errors.get("device", ""),
    )


def _chosen_summary(chosen: set[str], word: str, nothing: str) -> str:
    if not chosen:
        return nothing
    return next(iter(chosen)) if len(chosen) == 1 else f"{len(chosen)} {word}s"
