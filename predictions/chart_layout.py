"""What every chart shares: the frame, and logarithmic axes with round values.

Colours are tokens that the browser replaces, see :mod:`predictions.charts`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from predictions.display import format_duration

MIN_TICKS, MAX_TICKS = 4, 9

# A title of 13 px with its gaps; a letter of a tick; ticks and title below an axis.
TITLE_PX, TICK_LETTER_PX, BELOW_PX = 36, 7.5, 52

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
DURATION_TICKS = (
    *(base * 10.0**power for power in range(-4, 1) for base in (1, 2, 5)),
    *(10, 20, 30),
    *(count * _MINUTE for count in (1, 2, 5, 10, 20, 30)),
    *(count * _HOUR for count in (1, 2, 5, 10)),
    *(base * 10**power * _DAY for power in range(6) for base in (1, 2, 5)),
)
USD_TICKS = tuple(base * 10.0**power for power in range(-6, 12) for base in (1, 2, 5))


def figure_layout(x_axis: dict[str, Any], y_axis: dict[str, Any]) -> dict[str, Any]:
    """The frame around two axes.

    Where both axes bring their ticks, the margins follow from them: plotly would draw the figure
    twice to find them, which doubles the time until it is seen.
    """
    ticks = y_axis.get("ticktext")
    is_known = ticks is not None and "ticktext" in x_axis
    axis = {
        "gridcolor": "@line",
        "linecolor": "@line",
        "zeroline": False,
        "automargin": not is_known,
        "fixedrange": True,
    }
    margin = {"l": 8, "r": 12, "t": 8, "b": 8}
    if is_known and ticks is not None:
        longest = max(map(len, ticks), default=0)
        margin |= {"l": round(TITLE_PX + TICK_LETTER_PX * longest), "b": BELOW_PX}
    return {
        "xaxis": axis | x_axis,
        "yaxis": axis | y_axis,
        "font": {"color": "@muted", "size": 13},
        "paper_bgcolor": "@surface/0",
        "plot_bgcolor": "@surface/0",
        "margin": margin,
        "showlegend": False,
        "hoverlabel": {
            "bgcolor": "@surface",
            "bordercolor": "@line",
            "font": {"color": "@ink", "size": 13},
            "align": "left",
        },
        "hovermode": "closest",
        "dragmode": False,
    }


def duration_axis(title: str, values: Sequence[float]) -> dict[str, Any]:
    """Seconds, in words."""
    ticks = round_ticks(min(values), max(values), DURATION_TICKS)
    return log_axis(title, ticks, [format_duration(tick, 0.02) for tick in ticks])


def usd_axis(title: str, values: Sequence[float]) -> dict[str, Any]:
    """Dollars."""
    ticks = round_ticks(min(values), max(values), USD_TICKS)
    return log_axis(title, ticks, [f"${tick:,.6g}" for tick in ticks])


def round_ticks(low: float, high: float, usual: Sequence[float]) -> list[float]:
    """Round values from about ``low`` to ``high``: the usual ones, or even steps where the range
    holds too few of them.
    """
    low, high = 0.7 * low, 1.4 * high
    found = [tick for tick in usual if low <= tick <= high]
    if len(found) >= MIN_TICKS:
        return found[:: math.ceil(len(found) / MAX_TICKS)]
    step = next((tick for tick in usual if tick >= (high - low) / MAX_TICKS), high)
    return [count * step for count in range(math.ceil(low / step), math.floor(high / step) + 1)]


def log_axis(title: str, ticks: Sequence[float], texts: Sequence[str]) -> dict[str, Any]:
    """A logarithmic axis with these ticks and no others."""
    return {
        "type": "log",
        "title": {"text": title},
        "tickvals": list(ticks),
        "ticktext": list(texts),
    }


def five_digits(value: Any) -> Any:
    """Five digits draw the same picture and halve the page."""
    return float(f"{value:.5g}") if isinstance(value, float) else value
