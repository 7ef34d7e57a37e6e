"""Pooled timings out of the database, in a number of queries that does not grow.

The value of a timing: within each run (process) the samples of all its rounds together, the
median without the largest; then the median over the runs.
"""

from __future__ import annotations

import statistics
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Max, QuerySet

from benchmarking.models import (
    ArchitectureLayer,
    FailedTiming,
    IterationTiming,
    LayerTiming,
    MeasurementRun,
)
from benchmarking.specs import Optimizer, Pass, Precision, summarize_samples
from regression.convolution import LayerTimes


@dataclass(frozen=True, slots=True)
class PooledTiming:
    """One value from all runs; ``runs`` holds each run's own milliseconds by its id."""

    milliseconds: float
    runs: Mapping[str, float]


def load_layer_times(
    *, device_id: int, stack_id: int, architecture_id: int | None = None
) -> LayerTimes:
    """Milliseconds of every pass timed on a device with a stack, by layer key, batch size, pass.

    With ``architecture_id`` only the layers of that architecture. One query, or two where a run
    has several rounds.
    """
    timings = LayerTiming.objects.filter(
        run__machine__device_id=device_id, run__stack_id=stack_id
    ).order_by()
    if architecture_id is not None:
        # A layer may be used twice, with and without an input gradient: no join, no duplicates.
        uses = ArchitectureLayer.objects.filter(architecture_id=architecture_id).order_by()
        timings = timings.filter(layer_id__in=uses.values("layer_id"))
    pooled = _pool(timings, ("layer__key", "batch_size", "operation"))
    return {
        (str(key), int(batch_size), Pass(operation)): timing.milliseconds
        for (key, batch_size, operation), timing in pooled.items()
    }


@dataclass(frozen=True, slots=True)
class _Stamp:
    """Changes with every timing that comes (keys grow) and with every run that goes."""

    newest_timing: int
    runs: frozenset[str]


_layer_times: OrderedDict[tuple[int, int, int], tuple[_Stamp, LayerTimes]] = OrderedDict()
LAYER_TIMES_KEPT = 64


def recall_layer_times(*, device_id: int, stack_id: int, architecture_id: int) -> LayerTimes:
    """As :func:`load_layer_times` of an architecture, from memory while no timings came or went.

    Two short queries where they are remembered.
    """
    key = (device_id, stack_id, architecture_id)
    runs = MeasurementRun.objects.filter(machine__device_id=device_id, stack_id=stack_id)
    stamp = _Stamp(
        LayerTiming.objects.aggregate(newest=Max("pk"))["newest"] or 0,
        frozenset(map(str, runs.order_by().values_list("pk", flat=True))),
    )
    remembered = _layer_times.get(key)
    if remembered is not None and remembered[0] == stamp:
        return remembered[1]
    times = load_layer_times(
        device_id=device_id, stack_id=stack_id, architecture_id=architecture_id
    )
    _layer_times[key] = (stamp, times)
    while len(_layer_times) > LAYER_TIMES_KEPT:
        _layer_times.popitem(last=False)
    return times


def load_iterations(
    *, machine_id: int, stack_id: int, architecture_id: int | None = None
) -> dict[tuple[int, int, Optimizer], PooledTiming]:
    """Whole iterations measured on a machine, by architecture id, batch size and optimizer."""
    timings = IterationTiming.objects.filter(
        run__machine_id=machine_id, run__stack_id=stack_id
    ).order_by()
    if architecture_id is not None:
        timings = timings.filter(architecture_id=architecture_id)
    pooled = _pool(timings, ("architecture_id", "batch_size", "optimizer"))
    return {
        (int(architecture), int(batch_size), Optimizer(optimizer)): timing
        for (architecture, batch_size, optimizer), timing in pooled.items()
    }


def smallest_failed_batch(
    *, machine_id: int, architecture_id: int, precision: Precision
) -> int | None:
    """The smallest batch size that ran out of memory on a machine; ``None`` where none did."""
    return (
        FailedTiming.objects.filter(
            run__machine_id=machine_id,
            run__stack__precision=precision.value,
            architecture_id=architecture_id,
            kind=FailedTiming.Kind.OUT_OF_MEMORY,
        )
        .order_by("batch_size")
        .values_list("batch_size", flat=True)
        .first()
    )


def count_timings(*, device_id: int, machine_id: int, stack_id: int) -> tuple[int, int]:
    """Numbers of layer timings of a device, and of iterations of a machine, with a stack."""
    return (
        LayerTiming.objects.filter(
            run__machine__device_id=device_id, run__stack_id=stack_id
        ).count(),
        IterationTiming.objects.filter(run__machine_id=machine_id, run__stack_id=stack_id).count(),
    )


def _pool(
    timings: QuerySet[LayerTiming] | QuerySet[IterationTiming], key_fields: tuple[str, ...]
) -> dict[tuple[Any, ...], PooledTiming]:
    by_run: dict[tuple[Any, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    # Raw samples are long to read; a single round's summary is stored beside them.
    has_rounds = False
    for *key, run_id, milliseconds in timings.values_list(*key_fields, "run_id", "milliseconds"):
        values = by_run[tuple(key)][str(run_id)]
        values.append(milliseconds)
        has_rounds = has_rounds or len(values) > 1
    if has_rounds:
        by_run.clear()
        for *key, run_id, samples_ms in timings.values_list(*key_fields, "run_id", "samples_ms"):
            by_run[tuple(key)][str(run_id)].extend(samples_ms)
    return {key: _pool_runs(runs) for key, runs in by_run.items()}


def _pool_runs(samples_by_run: Mapping[str, list[float]]) -> PooledTiming:
    runs = {run: summarize_samples(samples) for run, samples in samples_by_run.items()}
    return PooledTiming(statistics.median(runs.values()), runs)
