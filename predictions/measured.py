"""What was timed where, for the machine and the architecture pages.

Layers are timed for a device, whole iterations for a machine: so do forecasts use them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Max, Min

from benchmarking.models import (
    Architecture,
    IterationTiming,
    LayerTiming,
    Machine,
    SoftwareStack,
)
from predictions.display import EN_DASH


@dataclass(frozen=True, slots=True)
class MeasuredLayers:
    """How many convolution layers of a device were timed with one software stack."""

    stack: str
    layers: int
    timings: int
    batch_sizes: str
    last_day: date


@dataclass(frozen=True, slots=True)
class MeasuredIterations:
    """Whole iterations of one CNN that were timed on one machine with one software stack."""

    architecture: str
    image_size: int
    machine: str
    stack: str
    timings: int
    batch_sizes: str

    @property
    def forecast_path(self) -> str:
        """Where the forecast is that stands on these timings."""
        asked = {
            "architecture": self.architecture,
            "machine": self.machine,
            "image_size": self.image_size,
        }
        return f"/?{urlencode(asked)}"


def layers_measured_on(machine: Machine) -> list[MeasuredLayers]:
    """One line for each software stack that layers of a machine's device were timed with."""
    counted = list(
        LayerTiming.objects.filter(run__machine__device=machine.device_id)
        .order_by()
        .values("run__stack")
        .annotate(
            layers=Count("layer", distinct=True),
            timings=Count("id"),
            smallest=Min("batch_size"),
            largest=Max("batch_size"),
            last=Max("run__started_at"),
        )
    )
    labels = _stack_labels(row["run__stack"] for row in counted)
    lines = [
        MeasuredLayers(
            labels[row["run__stack"]],
            row["layers"],
            row["timings"],
            _batch_sizes(row["smallest"], row["largest"]),
            row["last"].date(),
        )
        for row in counted
    ]
    return sorted(lines, key=lambda line: line.stack)


def iterations_measured_on(machine: Machine) -> list[MeasuredIterations]:
    """One line for each public CNN and software stack, by name."""
    return _measured_iterations(
        run__machine=machine, architecture__in=Architecture.objects.public().values("pk")
    )


def iterations_measured_of(architecture: Architecture) -> list[MeasuredIterations]:
    """One line for each machine and software stack, by name."""
    return _measured_iterations(architecture=architecture)


def _measured_iterations(**wanted: Any) -> list[MeasuredIterations]:
    counted = list(
        IterationTiming.objects.filter(**wanted)
        .order_by()
        .values(
            "architecture__slug", "architecture__image_size", "run__machine__slug", "run__stack"
        )
        .annotate(timings=Count("id"), smallest=Min("batch_size"), largest=Max("batch_size"))
        .order_by("architecture__slug", "architecture__image_size", "run__machine__slug")
    )
    labels = _stack_labels(row["run__stack"] for row in counted)
    return [
        MeasuredIterations(
            row["architecture__slug"],
            row["architecture__image_size"],
            row["run__machine__slug"],
            labels[row["run__stack"]],
            row["timings"],
            _batch_sizes(row["smallest"], row["largest"]),
        )
        for row in counted
    ]


def _stack_labels(ids: Iterable[int]) -> dict[int, str]:
    return {pk: str(stack) for pk, stack in SoftwareStack.objects.in_bulk(set(ids)).items()}


def _batch_sizes(smallest: int, largest: int) -> str:
    return f"{smallest}" if smallest == largest else f"{smallest} {EN_DASH} {largest}"
