"""Numbers as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictions.display import (
    format_duration,
    format_duration_range,
    format_exact_usd,
    format_gib,
    format_number,
    format_number_range,
    format_usd,
    format_usd_range,
    relative_error,
)

DASH = "\N{EN DASH}"


@pytest.mark.parametrize(
    ("seconds", "error", "text"),
    [
        (0.0123, 0.1, "12.4 ms"),
        (42.3, 0.1, "42 s"),
        (3480, 0.08, "58 min"),
        (4860, 0.02, "1 h 21 min"),
        (4860, 0.25, "1 h 20 min"),
        (313_200, 0.05, "3 d 15 h"),
        (86_400 * 400, 0.05, "400 d"),
        (None, 0.05, DASH),
    ],
)
def test_durations(seconds, error, text):
    assert format_duration(seconds, error) == text


def test_ranges_share_their_unit_and_step():
    assert format_duration_range(3000, 3500, 0.08) == f"50 {DASH} 58 min"
    assert format_duration_range(3000, 4200, 0.17) == f"50 min {DASH} 1 h 10 min"
    assert format_usd_range(94.3, 160.2, 0.27) == f"$95 {DASH} 160"
    assert format_number_range(9.2, 17.1, 0.3) == f"9.0 {DASH} 17.0"


def test_low_end_of_a_wide_range_is_not_nothing():
    assert format_duration_range(500, 80_000, 3.9) == f"10 min {DASH} 1 d"
    assert format_usd_range(0.1, 8, 3.9) == f"$0.10 {DASH} 8"
    assert format_number_range(15_000, 800_000, 3.9) == f"20,000 {DASH} 800,000"


@pytest.mark.parametrize(
    ("usd", "error", "text"),
    [
        (122.49, 0.05, "$122"),
        (122.49, 0.27, "$120"),
        (0.4237, 0.05, "$0.425"),
        (0.4237, 0.1, "$0.42"),
        (1281.4, 0.05, "$1,280"),
        (9.63, 0.1, "$9.60"),
        (None, 0.05, DASH),
        (0.0, 0.05, "$0"),
    ],
)
def test_dollars(usd, error, text):
    assert format_usd(usd, error) == text


def test_a_quoted_price_keeps_its_digits():
    assert format_exact_usd(21.957642) == "$21.957642"
    assert format_exact_usd(3.06) == "$3.06"
    assert format_exact_usd(1234.5) == "$1,234.50"


def test_memory():
    assert format_gib(974.4) == "0.95 GiB"
    assert format_gib(14438.4) == "14.1 GiB"
    assert format_gib(200_000) == "195 GiB"


def test_relative_error():
    assert relative_error(100, 90, 110) == pytest.approx(0.1)
    assert relative_error(100, None, 110) == 0.05
    assert relative_error(100, 99.99, 100.01) == 0.005


@given(st.floats(1e-3, 1e9), st.floats(0.005, 1))
def test_u4_rounding_stays_well_inside_the_error(value, error):
    shown = float(format_number(value, error).replace(",", ""))
    assert abs(shown - value) <= value * error / 4
