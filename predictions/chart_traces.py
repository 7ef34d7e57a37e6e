"""What stands in a chart: lines and points of each curve, winners, the front, memory's end.

Sources are told apart by marker shape, estimates also by a dashed line; points that do not fit are
hollow. Colours are tokens that the browser replaces, see :mod:`predictions.charts`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from predictions.advice import Candidate
from predictions.cards import Card
from predictions.chart_layout import five_digits
from predictions.rows import Forecast, ForecastRow, Series

SERIES_COLOURS = 8
MAX_BANDS = 12
MAX_LINE_LABELS = 6
# Of the height of the chart; closer labels would overlap.
LABEL_GAP = 0.065
LABEL_SEPARATOR = " \N{MIDDLE DOT} "
LONGEST_LABEL_PART = 20
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
# Width of a letter at 12 px in the widest of the usual fonts.
LETTER_PX = 7.2

SYMBOL_OF_SOURCE = {
    "measured": "circle",
    "benchmark+regression": "square",
    "interpolated": "diamond",
    "estimated": "triangle-up",
}


@dataclass(frozen=True, slots=True)
class CurveName:
    """How a curve is called, its colour, and its place among the hover texts."""

    label: str
    colour: int
    position: int


CurveNames = dict[tuple[str, str], CurveName]


def name_curves(forecast: Forecast, drawn: Sequence[Series]) -> CurveNames:
    """What tells the curves of a forecast apart: CNN, machine, or both."""
    several_cnns = len(forecast.query.architectures) > 1
    several_places = len(forecast.query.machines) + len(forecast.query.devices) > 1
    names = {}
    for number, series in enumerate(drawn):
        slug = series.rows[0].architecture
        parts = [slug] if several_cnns or not several_places else []
        if several_places:
            parts.append(series.label)
        names[series.key] = CurveName(
            LABEL_SEPARATOR.join(parts), number % SERIES_COLOURS + 1, number
        )
    return names


def curve_traces(drawn: Sequence[Series], names: CurveNames, key: str) -> list[dict[str, Any]]:
    """Bands, lines and points of every curve; bands only where there are few."""
    traces = []
    if len(drawn) <= MAX_BANDS:
        traces += [_band_trace(series, names, key) for series in drawn]
    for series in drawn:
        traces += _line_traces(series, names, key)
    traces += [point_trace(series, names, "batch_size", key) for series in drawn]
    return traces


def point_trace(series: Series, names: CurveNames, x_key: str, y_key: str) -> dict[str, Any]:
    """The points of one curve, with their hover texts."""
    name = names[series.key]
    colour = name.colour
    rows = series.answered
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name.label,
        "x": [five_digits(getattr(row, x_key)) for row in rows],
        "y": [five_digits(getattr(row, y_key)) for row in rows],
        "marker": {
            "size": 8 if len(rows) <= 24 else 6,
            "color": f"@series-{colour}",
            "symbol": [_symbol(row) for row in rows],
            "line": {"width": 1.4, "color": f"@series-{colour}"},
        },
        "text": name.position,
        "hovertemplate": f"<b>{name.label}</b><br>%{{text}}<extra></extra>",
    }


def winner_trace(
    word: str, cards: Sequence[Card], key: str, x_key: str = "batch_size"
) -> list[dict[str, Any]]:
    """A ring around the point that wins, one for each CNN."""
    rows = [card.row for card in cards if card.row is not None]
    if not rows:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": word,
            "hoverinfo": "skip",
            "x": [five_digits(getattr(row, x_key)) for row in rows],
            "y": [five_digits(getattr(row, key)) for row in rows],
            "marker": {
                "size": 17,
                "symbol": "circle-open",
                "color": "@ink",
                "line": {"width": 2, "color": "@ink"},
            },
        }
    ]


def front_trace(front: Sequence[Candidate]) -> dict[str, Any]:
    """The choices that nothing beats in both time and cost."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "Pareto front",
        "hoverinfo": "skip",
        "x": [five_digits(candidate.seconds) for candidate in front],
        "y": [five_digits(candidate.usd) for candidate in front],
        # A step: between two choices there is nothing to be had.
        "line": {"width": 2, "color": "@muted", "dash": "dot", "shape": "hv"},
    }


def _band_trace(series: Series, names: CurveNames, key: str) -> dict[str, Any]:
    """The 80 % interval as one filled outline, there and back."""
    name = names[series.key]
    rows = [
        row
        for row in series.answered
        if row.iteration_ms_low is not None and row.iteration_ms_high is not None
    ]
    sizes = [row.batch_size for row in rows]
    ends = [_interval(series, row, key) for row in rows]
    low = [five_digits(getattr(row, key) * end[0]) for row, end in zip(rows, ends)]
    high = [five_digits(getattr(row, key) * end[1]) for row, end in zip(rows, ends)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name.label,
        "hoverinfo": "skip",
        "x": sizes + sizes[::-1],
        "y": high + low[::-1],
        "fill": "toself",
        "fillcolor": f"@series-{name.colour}/0.13",
        "line": {"width": 0},
    }


def _interval(series: Series, row: ForecastRow, key: str) -> tuple[float, float]:
    """The ends of a figure's interval, as multiples of it."""
    if key != "epoch_seconds":
        return series.total_interval(row)
    assert row.iteration_ms and row.iteration_ms_low and row.iteration_ms_high
    return row.iteration_ms_low / row.iteration_ms, row.iteration_ms_high / row.iteration_ms


def _line_traces(series: Series, names: CurveNames, key: str) -> list[dict[str, Any]]:
    """The lines between the points: straight, for what lies between is not known, and dashed
    where they lead to an estimate.
    """
    colour = _colour(series, names)
    rows = series.answered
    traces: list[dict[str, Any]] = []
    for before, after in pairwise(rows):
        dash = "dash" if "estimated" in (before.source, after.source) else "solid"
        if not traces or traces[-1]["line"]["dash"] != dash:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": names[series.key].label,
                    "hoverinfo": "skip",
                    "x": [before.batch_size],
                    "y": [five_digits(getattr(before, key))],
                    "line": {"width": 1.6, "color": f"@series-{colour}", "dash": dash},
                }
            )
        traces[-1]["x"].append(after.batch_size)
        traces[-1]["y"].append(five_digits(getattr(after, key)))
    return traces


def _symbol(row: ForecastRow) -> str:
    symbol = SYMBOL_OF_SOURCE.get(row.source or "", "circle")
    return f"{symbol}-open" if row.fits == "no" else symbol


def memory_edges(drawn: Sequence[Series], names: CurveNames) -> list[dict[str, Any]]:
    """A dotted line where memory ends, for the curves that come near it."""
    last_shown = max((row.batch_size or 1 for one in drawn for row in one.answered), default=1)
    return [
        {
            "type": "line",
            "x0": series.largest_batch,
            "x1": series.largest_batch,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "layer": "below",
            "line": {"width": 1.4, "dash": "dot", "color": f"@series-{_colour(series, names)}"},
        }
        for series in drawn
        if series.largest_batch and series.largest_batch <= 2 * last_shown
    ]


def add_line_labels(
    layout: dict[str, Any],
    drawn: Sequence[Series],
    names: CurveNames,
    key: str,
) -> None:
    """The name at the end of each line, so that colour is not all that tells lines apart."""
    if not 1 < len(drawn) <= MAX_LINE_LABELS:
        return
    values = [math.log10(getattr(row, key)) for one in drawn for row in one.answered]
    gap = LABEL_GAP * max(max(values) - min(values), 0.3)
    ends = sorted(
        (math.log10(getattr(one.answered[-1], key)), number) for number, one in enumerate(drawn)
    )
    labels = []
    longest = 0
    lowest_free = -math.inf
    for height, number in ends:
        series = drawn[number]
        height = max(height, lowest_free)
        lowest_free = height + gap
        name = _shortened(names[series.key].label)
        longest = max(longest, len(name))
        labels.append(
            {
                "x": 1,
                "xref": "paper",
                "y": height,
                "xshift": 8,
                "xanchor": "left",
                "yanchor": "middle",
                "showarrow": False,
                "text": name,
                "font": {"size": 12, "color": f"@series-{_colour(series, names)}"},
            }
        )
    layout["annotations"] = labels
    layout["margin"] = layout["margin"] | {"r": round(20 + LETTER_PX * longest)}


def _shortened(label: str) -> str:
    """A name with its long parts cut, as that of a private network; the legend has it whole."""
    parts = [
        part if len(part) <= LONGEST_LABEL_PART else f"{part[: LONGEST_LABEL_PART - 1]}{ELLIPSIS}"
        for part in label.split(LABEL_SEPARATOR)
    ]
    return LABEL_SEPARATOR.join(parts)


def _colour(series: Series, names: CurveNames) -> int:
    return names[series.key].colour
