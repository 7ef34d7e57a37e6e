"""What a price says about its date."""

from __future__ import annotations

from datetime import date

import pytest

from benchmarking.models import Price


@pytest.mark.parametrize(
    ("as_of", "day"),
    [
        ("2026-08-17", date(2026, 8, 17)),
        ("2026-04", date(2026, 4, 1)),
        ("2018/2019", date(2018, 1, 1)),
        ("2025-06/2026", date(2025, 6, 1)),
        ("", None),
        ("long ago", None),
        ("2026-13-01", None),
    ],
)
def test_a_period_counts_from_its_first_day(as_of: str, day: date | None) -> None:
    assert Price(as_of=as_of).first_day == day
