"""Known points become a curve; its sources are never mixed silently."""

from __future__ import annotations

import math

import pytest

from regression.intervals import ErrorKind, IntervalModel
from regression.iteration_points import IterationPoint, complete_points
from regression.sources import Source

INTERVALS = IntervalModel(
    {
        ErrorKind.RUN: {f"net{n}": [0.01] for n in range(9)},
        ErrorKind.INTERPOLATED: {f"net{n}": [0.03] for n in range(9)},
        ErrorKind.EXTRAPOLATED: {f"net{n}": [0.05] for n in range(9)},
    }
)


def point(size: int, ms: float, source: Source = Source.MEASURED, **values) -> IterationPoint:
    defaults = {"half_width": 0.04, "measured_share": 1.0}
    return IterationPoint(size, ms, source=source, **{**defaults, **values})


def complete(known: list[IterationPoint], *wanted: int) -> dict[int, IterationPoint]:
    return complete_points(known, wanted, INTERVALS, "mine")


def test_known_points_stay_as_they_are() -> None:
    known = [point(8, 80.0), point(1, 10.0)]
    assert complete(known, 1, 8) == {1: known[1], 8: known[0]}


def test_between_two_measured_sizes_it_is_interpolated() -> None:
    between = complete([point(4, 40.0), point(8, 80.0)], 6)[6]
    assert between.milliseconds == 60.0
    assert between.source is Source.INTERPOLATED
    assert between.measured_share == 1.0
    assert between.half_width == pytest.approx(math.hypot(0.03, 0.04))
    assert between.note is None


def test_between_different_sources_the_note_says_so() -> None:
    known = [point(4, 40.0), point(8, 80.0, Source.REGRESSED, half_width=0.1)]
    between = complete(known, 5)[5]
    assert between.source is Source.INTERPOLATED
    assert between.note == "Between batch size 4 (measured) and 8 (benchmark+regression)."
    assert between.half_width == pytest.approx(math.hypot(0.03, 0.1))


def test_next_to_an_estimate_it_is_an_estimate() -> None:
    known = [point(4, 40.0), point(8, 80.0, Source.ESTIMATED)]
    assert complete(known, 5)[5].source is Source.ESTIMATED


def test_beyond_the_last_size_it_is_estimated_with_a_growing_interval() -> None:
    points = complete([point(4, 40.0), point(8, 80.0)], 16, 64)
    assert [points[size].milliseconds for size in (16, 64)] == pytest.approx([160.0, 640.0])
    assert {points[size].source for size in (16, 64)} == {Source.ESTIMATED}
    assert [points[size].half_width for size in (16, 64)] == pytest.approx(
        [math.hypot(0.05, 0.04), math.hypot(0.15, 0.04)]
    )
    assert points[16].measured_share == 0.0
    assert points[16].note == "Extrapolated from the largest known batch size, 8."


def test_below_the_first_size_as_well() -> None:
    below = complete([point(4, 40.0), point(8, 80.0)], 1)[1]
    assert below.milliseconds == pytest.approx(10.0)
    assert below.note == "Extrapolated from the smallest known batch size, 4."


def test_the_ends_of_an_interval_are_symmetric_in_ratio() -> None:
    each = point(1, 100.0, half_width=math.log(1.25))
    assert (each.low_ms, each.high_ms) == pytest.approx((80.0, 125.0))


def test_without_known_points_there_are_none() -> None:
    assert complete([], 1, 2) == {}
