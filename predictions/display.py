"""Numbers as people read them: no more digits than the error allows, durations in words."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

# Steps that a duration may be rounded to, in seconds.
_DURATION_STEPS = (
    *(base * 10.0**power for power in range(-6, 0) for base in (1, 2, 5)),
    *(1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400),
    *(86400 * base * 10**power for power in range(4) for base in (2, 5, 10)),
)
_LEAST_RELATIVE_ERROR = 0.005
EN_DASH = "\N{EN DASH}"
_UNKNOWN = EN_DASH


def relative_error(value: float, low: float | None, high: float | None) -> float:
    """Half the width of an interval as a share of its value; 5 % where there is no interval."""
    if not value or low is None or high is None:
        return 0.05
    return max(_LEAST_RELATIVE_ERROR, (high - low) / (2 * value))


def format_duration(seconds: float | None, error: float = 0.05) -> str:
    """A duration in at most two units, as in ``1 h 21 min``.

    ``error`` is the relative error: the last shown step is no finer than a quarter of it.
    """
    if seconds is None or not math.isfinite(seconds):
        return _UNKNOWN
    step = _largest_step(_DURATION_STEPS, seconds * error / 4)
    return _duration_in_words(seconds, step)


def format_duration_range(low: float | None, high: float | None, error: float) -> str:
    """Two durations with the step that the error of both allows, as in ``54 - 63 min``."""
    if low is None or high is None:
        return ""
    target = (low + high) / 2 * error / 4
    # The low end of a wide interval is little, but not nothing.
    first, last = (
        _duration_in_words(seconds, _largest_step(_DURATION_STEPS, min(target, seconds)))
        for seconds in (low, high)
    )
    return _joined_range(first, last)


def format_usd(usd: float | None, error: float = 0.05) -> str:
    """Dollars with no more digits than the relative error allows, as in ``$122`` or ``$0.42``."""
    if usd is None or not math.isfinite(usd):
        return _UNKNOWN
    return f"${with_cents(_rounded(usd, error))}"


def format_usd_range(low: float | None, high: float | None, error: float) -> str:
    """Two amounts, as in ``$94 - 160``."""
    if low is None or high is None:
        return ""
    middle = (low + high) / 2
    first, last = (with_cents(_rounded(value, error, scale=middle)) for value in (low, high))
    return f"${first}" if first == last else f"${first} {EN_DASH} {last}"


def format_number(value: float | None, error: float = 0.05) -> str:
    """A plain number with no more digits than the relative error allows."""
    if value is None or not math.isfinite(value):
        return _UNKNOWN
    return _rounded(value, error)


def format_number_range(low: float | None, high: float | None, error: float) -> str:
    """Two plain numbers with the digits that the error of both allows, as in ``54 - 63``."""
    if low is None or high is None:
        return ""
    middle = (low + high) / 2
    return f"{_rounded(low, error, scale=middle)} {EN_DASH} {_rounded(high, error, scale=middle)}"


def format_gib(mib: float | None) -> str:
    """Memory in GiB; its model is good to a few per cent, so three digits at most."""
    if mib is None or not math.isfinite(mib):
        return _UNKNOWN
    gib = mib / 1024
    return f"{gib:,.0f} GiB" if gib >= 100 else f"{gib:.2f} GiB" if gib < 1 else f"{gib:.1f} GiB"


def format_exact_usd(usd: float | None) -> str:
    """A quoted price: its own digits, at least cents."""
    if usd is None:
        return _UNKNOWN
    text = f"{usd:.6f}".rstrip("0")
    whole, _, cents = text.partition(".")
    return f"${int(whole):,}.{cents.ljust(2, '0')}"


def with_cents(amount: str) -> str:
    """``9.6`` as ``9.60``: nobody writes dollars with one decimal."""
    return f"{amount}0" if amount[-2:-1] == "." else amount


def listed(names: Sequence[str]) -> str:
    """Names as a sentence lists them: ``a, b and c``."""
    if len(names) <= 1:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _largest_step(steps: tuple[float, ...], target: float) -> float:
    return steps[max(0, bisect_right(steps, target) - 1)]


def _duration_in_words(seconds: float, step: float) -> str:
    return _rounded_duration_in_words(round(seconds / step) * step, step)


@lru_cache(maxsize=4096)
def _rounded_duration_in_words(rounded: float, step: float) -> str:
    """Once rounded, the durations of a large page are few."""
    if rounded < 1:
        return f"{_trimmed(rounded * 1000, step * 1000)} ms"
    if rounded < 60:
        return f"{_trimmed(rounded, step)} s"
    whole = round(rounded)
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days:,} d {hours} h" if hours and days < 100 else f"{days:,} d"
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min {left} s" if left else f"{minutes} min"


def _trimmed(value: float, step: float) -> str:
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:,.{decimals}f}"


def _rounded(value: float, error: float, scale: float | None = None) -> str:
    """``value`` in steps of 1, 2 or 5 times a power of ten, well within ``scale``'s error.

    A large page asks this tens of thousands of times: comparisons cost less than ``min``.
    """
    size = value if value >= 0 else -value
    reach = size if scale is None else abs(scale)
    target = reach * (error if error > _LEAST_RELATIVE_ERROR else _LEAST_RELATIVE_ERROR) / 4
    if target > size:
        target = size  # else the low end of a wide interval would become nothing
    if target <= 0:
        return "0"
    power = math.floor(math.log10(target))
    unit = 10.0**power
    leading = target / unit * 1.000001
    step = unit * (5 if leading >= 5 else 2 if leading >= 2 else 1)
    rounded = round(value / step) * step
    return f"{rounded:,.0f}" if power >= 0 else f"{rounded:,.{-power}f}"


def _joined_range(first: str, last: str) -> str:
    if first == last:
        return first
    first_words, last_words = first.split(" "), last.split(" ")
    if len(first_words) == 2 == len(last_words) and first_words[1] == last_words[1]:
        return f"{first_words[0]} {EN_DASH} {last}"
    return f"{first} {EN_DASH} {last}"
