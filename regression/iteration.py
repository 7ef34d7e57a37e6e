"""Iteration time, memory and their sources over batch size: what forecasts are made of.

The one function for the floor above is :func:`iteration_curve`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarking.models import Architecture, Device, Machine
from benchmarking.specs import Optimizer, Precision, TracedNetwork
from regression.answers import Answer, Place
from regression.iteration_points import IterationPoint
from regression.known_points import answer_from_timings
from regression.memory_need import MemoryNeed, memory_need
from regression.sources import Source
from regression.specification import answer_from_specification

Value = TypeVar("Value")


@dataclass(frozen=True)
class IterationCurve:
    """Iteration times of one CNN in one place; all sequences are as long as ``batch_sizes``.

    ``low_ms`` to ``high_ms`` is the 80 % interval. Where there is no answer, times and source
    are ``None`` and the note says why. ``fits`` is ``yes``, ``no`` or ``unknown``; ``bound_by``
    is ``device`` or ``host``; ``measured_share`` is the share of convolution time that was timed.
    ``largest_batch`` is the largest batch size that fits, ``None`` where unknown. ``stack`` is
    the label of the software that the timings were taken with, ``None`` where there are none.
    """

    batch_sizes: tuple[int, ...]
    iteration_ms: tuple[float | None, ...]
    low_ms: tuple[float | None, ...]
    high_ms: tuple[float | None, ...]
    sources: tuple[Source | None, ...]
    measured_share: tuple[float | None, ...]
    memory_mib: tuple[float | None, ...]
    fits: tuple[str, ...]
    bound_by: tuple[str | None, ...]
    notes: tuple[str | None, ...]
    stack: str | None
    model_version: str
    largest_batch: int | None


def iteration_curve(
    *,
    architecture: Architecture,
    device: Device,
    machine: Machine | None,
    precision: Precision,
    batch_sizes: Sequence[int],
    optimizer: Optimizer = Optimizer.SGD,
) -> IterationCurve:
    """Forecast the iterations of a CNN at ``batch_sizes`` (any order, each at least 1).

    The number of queries does not depend on the batch sizes. Nothing raises for what is merely
    not known: such points have no time, and a note.
    """
    network = architecture.to_spec()
    sizes = tuple(int(size) for size in batch_sizes)
    wanted = sorted({size for size in sizes if size >= network.minimum_batch_size})
    place = Place(device, machine, precision, optimizer)
    answer = answer_from_timings(architecture.pk, network, place, wanted)
    if not answer.points and device.kind == Device.Kind.CUDA:
        answer = answer_from_specification(network, place, wanted)
    measured = [size for size, point in answer.points.items() if point.source is Source.MEASURED]
    need = memory_need(architecture.pk, network, place, sizes, max(measured, default=0))
    return _to_curve(network, sizes, answer, need)


def _to_curve(
    network: TracedNetwork, sizes: tuple[int, ...], answer: Answer, need: MemoryNeed
) -> IterationCurve:
    points = [answer.points.get(size) for size in sizes]

    def column(read: Callable[[IterationPoint], Value]) -> tuple[Value | None, ...]:
        return tuple(None if point is None else read(point) for point in points)

    return IterationCurve(
        batch_sizes=sizes,
        iteration_ms=column(lambda point: point.milliseconds),
        low_ms=column(lambda point: point.low_ms),
        high_ms=column(lambda point: point.high_ms),
        sources=column(lambda point: point.source),
        measured_share=column(lambda point: point.measured_share),
        memory_mib=need.memory_mib,
        fits=need.fits,
        bound_by=column(lambda point: point.bound_by),
        notes=tuple(
            point.note if point is not None else _refusal(network, size, answer)
            for size, point in zip(sizes, points, strict=True)
        ),
        stack=answer.stack_label,
        model_version=answer.model_version,
        largest_batch=need.largest_batch,
    )


def _refusal(network: TracedNetwork, size: int, answer: Answer) -> str | None:
    if size < network.minimum_batch_size:
        return (
            f"Batches below {network.minimum_batch_size} cannot train: "
            "BatchNorm would see a single value per channel."
        )
    return answer.refusal
