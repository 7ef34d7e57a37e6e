"""US dollars as messages say them."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

_CENT = Decimal("0.01")
# From here on cents have two significant digits.
_CENTS_SUFFICE = Decimal("0.1")


def usd_digits(amount: Decimal) -> str:
    """``amount`` to the cent, and to two significant digits where cents would round it away."""
    if amount == 0 or abs(amount) >= _CENTS_SUFFICE:
        return f"{amount.quantize(_CENT, rounding=ROUND_HALF_UP):f}"
    smallest = Decimal(1).scaleb(amount.adjusted() - 1)
    digits = f"{amount.quantize(smallest, rounding=ROUND_HALF_UP):f}".rstrip("0")
    whole, _, cents = digits.partition(".")
    return f"{whole}.{cents.ljust(2, '0')}"


def usd_text(amount: Decimal) -> str:
    """The same with its unit."""
    return f"{usd_digits(amount)} USD"
