"""A curve over batch size from the points that are known: their sources, intervals and notes.

Free of the database: :mod:`regression.iteration` finds the known points, here the others follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from regression.batch_curve import extrapolate, interpolate
from regression.intervals import ErrorKind, IntervalModel
from regression.sources import Source


@dataclass(frozen=True, slots=True)
class IterationPoint:
    """The iteration time at one batch size; the interval is ``ms * exp(+-half_width)``."""

    batch_size: int
    milliseconds: float
    half_width: float
    source: Source
    measured_share: float
    bound_by: str = "device"
    note: str | None = None

    @property
    def low_ms(self) -> float:
        """Lower end of the interval."""
        return self.milliseconds * math.exp(-self.half_width)

    @property
    def high_ms(self) -> float:
        """Upper end of the interval."""
        return self.milliseconds * math.exp(self.half_width)


def join_notes(*notes: str | None) -> str | None:
    """All notes as one sentence, parts apart by semicolons; ``None`` without any."""
    parts = [note.rstrip(".") for note in notes if note]
    if not parts:
        return None
    return "; ".join([parts[0], *(part[0].lower() + part[1:] for part in parts[1:])]) + "."


def complete_points(
    known: Sequence[IterationPoint],
    wanted: Iterable[int],
    intervals: IntervalModel,
    network: str,
) -> dict[int, IterationPoint]:
    """A point for every wanted batch size, the known ones included.

    Sizes between two known ones are interpolated in a straight line; sizes outside are estimated
    from the nearest end. Their half widths join that of the neighbours and that of the step
    itself in quadrature. ``known`` may be in any order and has one point a batch size; without
    any, nothing is returned.
    """
    points = {point.batch_size: point for point in known}
    if not points:
        return {}
    ordered = sorted(points.values(), key=lambda point: point.batch_size)
    sizes = np.array([point.batch_size for point in ordered], dtype=float)
    milliseconds = np.array([point.milliseconds for point in ordered])
    missing = np.array(sorted(set(wanted) - set(points)), dtype=float)
    inside = (missing > sizes[0]) & (missing < sizes[-1])
    between_ms = interpolate(sizes, milliseconds, missing)
    beyond_ms = extrapolate(sizes, milliseconds, missing)
    for size, is_inside, inside_ms, outside_ms in zip(
        missing, inside, between_ms, beyond_ms, strict=True
    ):
        if is_inside:
            right = int(np.searchsorted(sizes, size))
            points[int(size)] = _between(
                int(size), float(inside_ms), ordered[right - 1], ordered[right], intervals, network
            )
        else:
            end = ordered[-1] if size > sizes[-1] else ordered[0]
            points[int(size)] = _beyond(int(size), float(outside_ms), end, intervals, network)
    return points


def _between(
    size: int,
    milliseconds: float,
    left: IterationPoint,
    right: IterationPoint,
    intervals: IntervalModel,
    network: str,
) -> IterationPoint:
    step = intervals.half_width(ErrorKind.INTERPOLATED, network)
    note = left.note or right.note
    if left.source is not right.source:
        note = (
            f"Between batch size {left.batch_size} ({left.source}) "
            f"and {right.batch_size} ({right.source})."
        )
    return IterationPoint(
        size,
        milliseconds,
        _joined_width(step, left, right),
        Source.ESTIMATED
        if Source.ESTIMATED in (left.source, right.source)
        else Source.INTERPOLATED,
        min(left.measured_share, right.measured_share),
        left.bound_by,
        note,
    )


def _beyond(
    size: int,
    milliseconds: float,
    end: IterationPoint,
    intervals: IntervalModel,
    network: str,
) -> IterationPoint:
    doublings = abs(math.log2(size / end.batch_size))
    step = intervals.half_width(ErrorKind.EXTRAPOLATED, network, doublings)
    word = "largest" if size > end.batch_size else "smallest"
    distance = f"Extrapolated from the {word} known batch size, {end.batch_size}."
    return IterationPoint(
        size,
        milliseconds,
        _joined_width(step, end),
        Source.ESTIMATED,
        0.0,
        end.bound_by,
        join_notes(end.note, distance),
    )


def _joined_width(step: float, *neighbours: IterationPoint) -> float:
    """The wider neighbour and the step; what the run's variability adds is in both, once too often.

    An upper bound, since the two errors are independent.
    """
    return math.hypot(step, max(point.half_width for point in neighbours))
