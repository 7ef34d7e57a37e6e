"""Amounts in messages keep the digits that they need."""

from __future__ import annotations

from decimal import Decimal

import pytest

from benchmarking.money import usd_digits, usd_text


@pytest.mark.parametrize(
    ("amount", "digits"),
    [
        ("0", "0.00"),
        ("0.000000", "0.00"),
        ("0.000001", "0.000001"),
        ("0.000123", "0.00012"),
        ("0.0042", "0.0042"),
        ("0.008767", "0.0088"),
        ("0.00996", "0.01"),
        ("0.01", "0.01"),
        ("0.0105", "0.011"),
        ("0.05", "0.05"),
        ("0.0996", "0.10"),
        ("0.1", "0.10"),
        ("0.125", "0.13"),
        ("3.06", "3.06"),
        ("21.957642", "21.96"),
        ("1E+3", "1000.00"),
        ("-0.0042", "-0.0042"),
        ("-2.5", "-2.50"),
    ],
)
def test_small_amounts_are_not_rounded_away(amount: str, digits: str) -> None:
    assert usd_digits(Decimal(amount)) == digits
    assert usd_text(Decimal(amount)) == f"{digits} USD"
