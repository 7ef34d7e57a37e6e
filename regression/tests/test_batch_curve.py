"""Between, beyond and along the known batch sizes of a curve."""

from __future__ import annotations

import numpy as np
import pytest

from regression.batch_curve import (
    anchor,
    anchoring_errors,
    extrapolate,
    extrapolation_errors,
    interpolate,
    interpolation_errors,
    run_errors,
)

SIZES = np.array([1.0, 2.0, 4.0, 8.0])
AFFINE = 30 + 5 * SIZES


def test_between_two_sizes_it_is_a_straight_line() -> None:
    assert interpolate(SIZES, AFFINE, np.array([3.0, 6.0])).tolist() == [45.0, 60.0]


def test_an_affine_curve_is_continued_both_ways() -> None:
    known, milliseconds = SIZES[1:], AFFINE[1:]
    beyond = extrapolate(known, milliseconds, np.array([1.0, 16.0, 64.0]))
    assert beyond == pytest.approx([35.0, 110.0, 350.0])


def test_past_a_jump_the_last_time_per_example_holds() -> None:
    proportional = np.array([10.0, 20.0, 40.0, 120.0])  # another kernel at batch size 8
    assert extrapolate(SIZES, proportional, np.array([16.0]))[0] == pytest.approx(240.0)


def test_one_known_size_means_proportional() -> None:
    assert extrapolate(np.array([4.0]), np.array([12.0]), np.array([2.0, 8.0])).tolist() == [6, 24]


def test_a_falling_curve_is_never_continued_below_zero() -> None:
    falling = np.array([40.0, 38.0, 37.0, 36.5])
    assert (extrapolate(SIZES, falling, np.array([16.0, 1024.0])) > 0).all()


def test_anchored_times_pass_through_the_measured_ones() -> None:
    regressed = np.array([10.0, 22.0, 35.0, 90.0])
    measured_at = np.array([0, 2])
    anchored = anchor(
        SIZES, regressed, SIZES[measured_at], AFFINE[measured_at], regressed[measured_at]
    )
    assert anchored[measured_at] == pytest.approx(AFFINE[measured_at])
    assert anchored[3] / regressed[3] == pytest.approx(AFFINE[2] / regressed[2])


def test_a_constant_error_of_the_model_makes_no_jump_at_a_change_of_source() -> None:
    regressed = 1.3 * AFFINE
    measured = np.array([0, 1])
    anchored = anchor(SIZES, regressed, SIZES[measured], AFFINE[measured], regressed[measured])
    assert anchored == pytest.approx(AFFINE)


def test_errors_of_held_out_points() -> None:
    assert interpolation_errors(SIZES, AFFINE) == pytest.approx([0, 0])
    assert extrapolation_errors(SIZES, AFFINE) == pytest.approx([0, 0, 0])
    assert anchoring_errors(SIZES, AFFINE, 2 * AFFINE) == pytest.approx([0, 0, 0, 0])


def test_an_extrapolation_error_is_divided_by_the_doublings() -> None:
    doubled = AFFINE * np.array([1, 1, 1, 2])
    from_two, of_last, from_three = extrapolation_errors(SIZES, doubled)
    assert from_two == pytest.approx(0)
    assert of_last == pytest.approx(np.log(2) / 2)
    assert from_three == pytest.approx(np.log(2))


def test_curves_too_short_have_no_errors() -> None:
    one = np.array([1.0])
    assert interpolation_errors(SIZES[:2], AFFINE[:2]) == []
    assert extrapolation_errors(SIZES[:2], AFFINE[:2]) == []
    assert anchoring_errors(one, one, one) == []


def test_each_run_is_compared_with_what_is_shown() -> None:
    assert run_errors({"a": 10.0}) == []
    assert run_errors({"a": 10.0, "b": 10.0, "c": 20.0}) == pytest.approx([0, 0, np.log(2)])
