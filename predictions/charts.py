"""Plotly figures as plain dictionaries, made on the server.

Colours are tokens such as ``@series-1`` or ``@series-1/0.12`` (with an opacity): the browser
replaces them by the style sheet's colours, so that one figure serves light and dark. Sources are
told apart by marker shape, estimates also by a dashed line, points that do not fit are hollow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from predictions.advice import Candidate
from predictions.cards import Answer, Card
from predictions.chart_layout import duration_axis, figure_layout, five_digits, log_axis, usd_axis
from predictions.row_texts import RowTexts
from predictions.rows import Forecast, ForecastRow, Series
from predictions.table_view import TableView

SERIES_COLOURS = 8
MAX_BANDS = 12
MAX_LINE_LABELS = 6
# Of the height of the chart; closer labels would overlap.
LABEL_GAP = 0.065

SYMBOL_OF_SOURCE = {
    "measured": "circle",
    "benchmark+regression": "square",
    "interpolated": "diamond",
    "estimated": "triangle-up",
}


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure with the words that stand for it; ``slug`` names it in the page.

    A trace's ``text`` is the number of its entry in :func:`make_hover_texts`, for all three
    figures show the same points.
    """

    slug: str
    tab: str
    title: str
    summary: str
    figure: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A curve's colour number and how it is named."""

    colour: int
    name: str
    detail: str
    dashed: bool


def make_legend(forecast: Forecast) -> list[LegendEntry]:
    """One entry for each curve that is drawn."""
    drawn = [series for series in forecast.series if series.answered]
    names = _names(forecast, drawn)
    entries = []
    for series in drawn:
        name = names[series.rows[0].architecture, series.place.key]
        entries.append(
            LegendEntry(name.colour, name.label, series.place.device.name, _is_estimated(series))
        )
    return entries


def make_hover_texts(
    forecast: Forecast, texts: Sequence[Sequence[RowTexts]], view: TableView
) -> list[list[str]]:
    """What hovering over each point says, in lines, for each curve that is drawn."""
    return [
        [_hover_text(row, words, view) for row, words in zip(series.answered, words_of_series)]
        for series, words_of_series in zip(forecast.series, texts)
        if series.answered
    ]


def make_charts(forecast: Forecast, answers: Sequence[Answer]) -> list[Chart]:
    """Epoch time and cost over batch size, and time against cost; a chart without points is left
    out.
    """
    drawn = [series for series in forecast.series if series.answered]
    priced = [series for series in drawn if series.price is not None]
    names = _names(forecast, drawn)
    charts = []
    if drawn:
        charts.append(_epoch_time_chart(drawn, names, answers))
    if priced:
        charts.append(_cost_chart(priced, names, answers, forecast.query.epochs))
        charts.append(_time_cost_chart(priced, names, answers))
    return charts


@dataclass(frozen=True, slots=True)
class _Name:
    """How a curve is called, its colour, and its place among the hover texts."""

    label: str
    colour: int
    position: int


_Names = dict[tuple[str, str], _Name]


def _names(forecast: Forecast, drawn: Sequence[Series]) -> _Names:
    several_cnns = len(forecast.query.architectures) > 1
    several_places = len(forecast.query.machines) + len(forecast.query.devices) > 1
    names = {}
    for number, series in enumerate(drawn):
        slug = series.rows[0].architecture
        parts = [slug] if several_cnns or not several_places else []
        if several_places:
            parts.append(series.label)
        names[slug, series.place.key] = _Name(
            " · ".join(parts), number % SERIES_COLOURS + 1, number
        )
    return names


def _epoch_time_chart(
    drawn: Sequence[Series],
    names: _Names,
    answers: Sequence[Answer],
) -> Chart:
    layout = figure_layout(
        _batch_axis(drawn), duration_axis("time per epoch", _epoch_values(drawn))
    )
    layout["shapes"] = _memory_edges(drawn, names)
    _add_line_labels(layout, drawn, names, "epoch_seconds")
    winners = [
        f"{answer.architecture} is fastest on {card.place} at batch {card.batch_size}"
        for answer in answers
        if (card := answer.cards[0]).place
    ]
    return Chart(
        slug="epoch-time",
        tab="Epoch time",
        title="Epoch time over batch size",
        summary=_summary(f"{_count(len(drawn), 'curve')}; lower is faster.", winners),
        figure={
            "data": [
                *_curves(drawn, names, "epoch_seconds"),
                *_winner_trace("fastest", [answer.cards[0] for answer in answers], "epoch_seconds"),
            ],
            "layout": layout,
        },
    )


def _cost_chart(
    priced: Sequence[Series],
    names: _Names,
    answers: Sequence[Answer],
    epochs: int,
) -> Chart:
    costs = [row.total_cost_usd for one in priced for row in one.answered if row.total_cost_usd]
    axis = usd_axis(f"cost of {_count(epochs, 'epoch')}", costs)
    layout = figure_layout(_batch_axis(priced), axis)
    layout["shapes"] = _memory_edges(priced, names)
    _add_line_labels(layout, priced, names, "total_cost_usd")
    winners = [
        f"{answer.architecture} is cheapest on {card.place} at batch {card.batch_size}"
        for answer in answers
        if (card := answer.cards[1]).place
    ]
    return Chart(
        slug="cost",
        tab="Cost",
        title="Cost over batch size",
        summary=_summary(f"{_count(len(priced), 'curve')}; lower is cheaper.", winners),
        figure={
            "data": [
                *_curves(priced, names, "total_cost_usd"),
                *_winner_trace(
                    "cheapest", [answer.cards[1] for answer in answers], "total_cost_usd"
                ),
            ],
            "layout": layout,
        },
    )


def _time_cost_chart(
    priced: Sequence[Series],
    names: _Names,
    answers: Sequence[Answer],
) -> Chart:
    times = [row.total_seconds for one in priced for row in one.answered if row.total_seconds]
    costs = [row.total_cost_usd for one in priced for row in one.answered if row.total_cost_usd]
    data = [_point_trace(one, names, "total_seconds", "total_cost_usd") for one in priced]
    data += _winner_trace(
        "best trade-off",
        [answer.cards[2] for answer in answers],
        "total_cost_usd",
        x_key="total_seconds",
    )
    data += [
        _front_trace(answer.advice.front) for answer in answers if len(answer.advice.front) > 1
    ]
    fronts = [
        f"{answer.architecture}: {_count(len(answer.advice.front), 'choice')} that nothing beats "
        "in both"
        for answer in answers
        if answer.advice.front
    ]
    return Chart(
        slug="time-cost",
        tab="Time against cost",
        title="Time against cost",
        summary=_summary("Every point is one batch size; down and left is better.", fronts),
        figure={
            "data": data,
            "layout": figure_layout(
                duration_axis("total time", times), usd_axis("total cost", costs)
            ),
        },
    )


def _summary(first: str, parts: Sequence[str]) -> str:
    more = f" and {len(parts) - 4} more" if len(parts) > 4 else ""
    return f"{first} {'; '.join(parts[:4])}{more}." if parts else first


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _curves(drawn: Sequence[Series], names: _Names, key: str) -> list[dict[str, Any]]:
    traces = []
    if len(drawn) <= MAX_BANDS:
        traces += [_band_trace(series, names, key) for series in drawn]
    for series in drawn:
        traces += _line_traces(series, names, key)
    traces += [_point_trace(series, names, "batch_size", key) for series in drawn]
    return traces


def _band_trace(series: Series, names: _Names, key: str) -> dict[str, Any]:
    """The 80 % interval as one filled outline, there and back."""
    name = names[series.rows[0].architecture, series.place.key]
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


def _line_traces(series: Series, names: _Names, key: str) -> list[dict[str, Any]]:
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
                    "name": names[before.architecture, series.place.key].label,
                    "hoverinfo": "skip",
                    "x": [before.batch_size],
                    "y": [five_digits(getattr(before, key))],
                    "line": {"width": 1.6, "color": f"@series-{colour}", "dash": dash},
                }
            )
        traces[-1]["x"].append(after.batch_size)
        traces[-1]["y"].append(five_digits(getattr(after, key)))
    return traces


def _point_trace(series: Series, names: _Names, x_key: str, y_key: str) -> dict[str, Any]:
    name = names[series.rows[0].architecture, series.place.key]
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


def _winner_trace(
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


def _front_trace(front: Sequence[Candidate]) -> dict[str, Any]:
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


def _symbol(row: ForecastRow) -> str:
    symbol = SYMBOL_OF_SOURCE.get(row.source or "", "circle")
    return f"{symbol}-open" if row.fits == "no" else symbol


def _hover_text(row: ForecastRow, texts: RowTexts, view: TableView) -> str:
    span = "in total" if view.per == "total" else "an epoch"
    cost = f"\n{texts.cost} {span} ({texts.cost_range})" if texts.cost_range else ""
    return (
        f"batch {row.batch_size}, {row.source}\n"
        f"{texts.epoch} an epoch ({texts.epoch_range})\n"
        f"{texts.images_per_second} images/s, bound by {row.bound_by}"
        f"{cost}\n{texts.memory}, {texts.fits}"
    )


def _memory_edges(drawn: Sequence[Series], names: _Names) -> list[dict[str, Any]]:
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


def _add_line_labels(
    layout: dict[str, Any],
    drawn: Sequence[Series],
    names: _Names,
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
        name = names[series.rows[0].architecture, series.place.key].label
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
    # A letter of 12 px is about 6.5 px wide.
    layout["margin"] = layout["margin"] | {"r": round(20 + 6.5 * longest)}


def _colour(series: Series, names: _Names) -> int:
    return names[series.rows[0].architecture, series.place.key].colour


def _is_estimated(series: Series) -> bool:
    """Whether most of a curve is estimated: it is drawn dashed."""
    return 2 * sum(row.source == "estimated" for row in series.answered) > len(series.answered)


def _batch_axis(drawn: Sequence[Series]) -> dict[str, Any]:
    sizes = {row.batch_size for one in drawn for row in one.answered if row.batch_size}
    ticks = [2**power for power in range(13) if min(sizes) <= 2**power <= max(sizes)]
    ticks = ticks if len(ticks) > 1 else sorted(sizes)[:: max(1, len(sizes) // 8)]
    return log_axis("batch size", ticks, [str(tick) for tick in ticks])


def _epoch_values(drawn: Sequence[Series]) -> list[float]:
    return [row.epoch_seconds for one in drawn for row in one.answered if row.epoch_seconds]
