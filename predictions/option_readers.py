"""How the text of one option is read, and what is said where it cannot be."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from benchmarking.suggestions import did_you_mean_sentence, quoted

DEFAULT_REGION = "us-east-1"

_WHOLE_NUMBER = re.compile(r"[0-9]{1,15}|[0-9]{1,3}(?:[, _'][0-9]{3}){1,4}", re.ASCII)
_DECIMAL_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)


def whole_number(name: str, maximum: int) -> Callable[[str], int]:
    """A reader of whole numbers from 1; thousands may be grouped, as in 1,281,167."""

    def read(text: str) -> int:
        number = int(re.sub(r"[, _']", "", text)) if _WHOLE_NUMBER.fullmatch(text) else 0
        if not 1 <= number <= maximum:
            raise ValueError(
                f"{name.capitalize()} must be a whole number from 1 to {maximum:,} "
                f"(got {quoted(text)})."
            )
        return number

    return read


def number_above(name: str, unit: str, maximum: float) -> Callable[[str], float]:
    """A reader of numbers above 0."""

    def read(text: str) -> float:
        number = _decimal(text)
        if not 0 < number <= maximum:
            raise ValueError(
                f"{name} must be a number of {unit} above 0 and at most {maximum:,.0f} "
                f"(got {quoted(text)})."
            )
        return number

    return read


def number_from(name: str, unit: str, minimum: float, maximum: float) -> Callable[[str], float]:
    """A reader of numbers between two bounds, both allowed."""

    def read(text: str) -> float:
        number = _decimal(text)
        if not minimum <= number <= maximum:
            raise ValueError(
                f"{name} must be a number of {unit} from {minimum:,g} to {maximum:,.0f} "
                f"(got {quoted(text)})."
            )
        return number

    return read


def one_of(name: str, allowed: Sequence[str]) -> Callable[[str], str]:
    """A reader of one word of a few."""

    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(
                f"Unknown {name} {quoted(text)}: it is one of {', '.join(allowed)}."
                f"{did_you_mean_sentence(text, allowed)}"
            )
        return text

    return read


def read_region(text: str) -> str:
    """The name of a region as providers write them; whether a price is known there comes later."""
    if not re.fullmatch(r"[A-Za-z0-9 ()/_-]{1,40}", text, re.ASCII):
        raise ValueError(f"{quoted(text)} is not the name of a region, as in {DEFAULT_REGION}.")
    return text


def write_number(number: float) -> str:
    """The shortest text that reads as the same number."""
    return repr(int(number)) if number == int(number) else repr(number)


def _decimal(text: str) -> float:
    return float(text) if _DECIMAL_NUMBER.fullmatch(text) else math.nan
