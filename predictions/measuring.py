"""What it would take to measure a CNN where it is only estimated: about how long, for how much.

The planner of benchmarks would say it more exactly, but asks the database and every layer; a page
says it for dozens of rows. The same batch sizes and repeats, applied to the forecast's own
iteration times, come within a factor of three of it. A machine that is launched boots first, as
in the quote of a job.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Count, Sum

from benchmarking.jobs.planner import (
    BUILDABLE_SOURCE,
    CPU_BATCH_SIZES,
    CUDA_BATCH_SIZES,
    LARGEST_BATCH_MARGIN,
    SECONDS_PER_ITEM,
    SECONDS_PER_NETWORK,
)
from benchmarking.jobs.proposal import default_host_kind
from benchmarking.jobs.quote import usual_boot_seconds
from benchmarking.models import ArchitectureLayer, Machine
from benchmarking.probe.plan import default_sampling
from benchmarking.specs import DeviceKind
from predictions.rows import Forecast, Series

PASSES = 3
# Of an iteration, as a usual CNN has it.
CONVOLUTION_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class LayerCounts:
    """Convolution layers of a CNN: different ones, and calls in one iteration."""

    different: int
    calls: int


@dataclass(frozen=True, slots=True)
class Effort:
    """What measuring would take, the machine's boot included.

    ``usd`` is ``None`` where no price is known.
    """

    seconds: float
    usd: float | None

    def __str__(self) -> str:
        minutes = max(1, math.ceil(self.seconds / 60))
        time = f"{minutes} min" if minutes < 90 else f"{math.ceil(minutes / 60)} h"
        if self.usd is None:
            return f"about {time}"
        return f"about {time} and ${math.ceil(100 * self.usd) / 100:,.2f}"


def count_layers(series: Iterable[Series]) -> dict[int, LayerCounts]:
    """The layers of every CNN in ``series`` by its key, in one query."""
    keys = {one.architecture.pk for one in series if one.architecture}
    rows = (
        ArchitectureLayer.objects.filter(architecture__in=keys)
        .order_by()
        .values_list("architecture")
        .annotate(different=Count("layer", distinct=True), calls=Sum("count"))
    )
    return {key: LayerCounts(different, calls) for key, different, calls in rows}


def measuring_sentence(series: Series, layers: Mapping[int, LayerCounts]) -> str:
    """What is not measured of a CNN on a machine and what measuring it takes, as a part of a note.

    Empty where enough is measured, and where nobody can measure: on a retired machine, on a
    device alone.
    """
    effort = measuring_effort(series, layers)
    if effort is None or series.architecture is None:
        return ""
    share = _measured_share(series)
    if share:
        return f"{100 * share:.0f} % of its convolutions are measured; the rest takes {effort}"
    count = layers[series.architecture.pk].different
    return f"not measured: {count} layers are missing, measuring them takes {effort}"


def efforts_by_machine(forecast: Forecast) -> dict[str, Effort]:
    """What measuring takes on each machine of a forecast of one CNN where that can be said."""
    layers = count_layers(forecast.series)
    return {
        series.label: effort
        for series in forecast.series
        if (effort := measuring_effort(series, layers)) is not None
    }


def measuring_effort(series: Series, layers: Mapping[int, LayerCounts]) -> Effort | None:
    """What measuring the rest of a CNN on a machine takes; ``None`` where nothing can be said."""
    machine, architecture, curve = series.place.machine, series.architecture, series.curve
    if machine is None or architecture is None or curve is None or architecture.pk not in layers:
        return None
    share = _measured_share(series)
    if machine.availability != Machine.Availability.CURRENT or share is None or share >= 1:
        return None
    kind = DeviceKind(series.place.device.kind)
    sampling = default_sampling(kind)
    counts = layers[architecture.pk]
    missing_layers = counts.different * (1 - share)
    seconds = 0.0
    for size in CPU_BATCH_SIZES if kind is DeviceKind.CPU else CUDA_BATCH_SIZES:
        iteration_seconds = _iteration_seconds(series, size)
        if iteration_seconds is None:
            continue
        pass_seconds = CONVOLUTION_SHARE * iteration_seconds / (PASSES * counts.calls)
        layer_seconds = PASSES * sampling.convolution.expected_seconds(pass_seconds)
        seconds += missing_layers * (layer_seconds + SECONDS_PER_ITEM)
        if architecture.source == BUILDABLE_SOURCE:
            seconds += sampling.iteration.expected_seconds(iteration_seconds) + SECONDS_PER_ITEM
    if not seconds:
        return None
    # Which computers answer over SSH instead, a page of dozens of rows does not ask.
    seconds += SECONDS_PER_NETWORK + usual_boot_seconds(default_host_kind(machine, ()))
    usd_per_hour = series.price.usd_per_hour if series.price else None
    return Effort(seconds, None if usd_per_hour is None else float(usd_per_hour) * seconds / 3600)


def _measured_share(series: Series) -> float | None:
    """The least measured share of the convolutions; ``None`` where not every row is estimated."""
    rows = series.answered
    if any(row.source != "estimated" for row in rows):
        return None
    return min((row.measured_share or 0.0 for row in rows), default=None)


def _iteration_seconds(series: Series, batch_size: int) -> float | None:
    """Seconds of an iteration of a batch size that would be measured; else ``None``."""
    assert series.curve is not None
    largest = series.curve.largest_batch
    if largest is not None and batch_size > largest * LARGEST_BATCH_MARGIN:
        return None
    sizes = series.curve.points["batch_sizes"]
    if batch_size not in sizes:
        return None
    milliseconds = series.curve.points["iteration_ms"][sizes.index(batch_size)]
    return None if milliseconds is None else milliseconds / 1000
