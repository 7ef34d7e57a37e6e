"""Plotly figures as plain dictionaries, made on the server.

Colours are tokens such as ``@series-1`` or ``@series-1/0.12`` (with an opacity): the browser
replaces them by the style sheet's colours, so that one figure serves light and dark. Sources are
told apart by marker shape, estimates also by a dashed line, points that do not fit are hollow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from predictions.advice import Candidate
from predictions.cards import Answer
from predictions.display import (
    format_duration,
    format_duration_range,
    format_gib,
    format_number,
    format_usd,
    format_usd_range,
    relative_error,
)
from predictions.forecast import Forecast, ForecastRow, Series

SERIES_COLOURS = 8
MAX_MEMORY_EDGES = 4
MAX_BANDS = 12

SYMBOL_OF_SOURCE = {
    "measured": "circle",
    "benchmark+regression": "square",
    "interpolated": "diamond",
    "estimated": "triangle-up",
}

_DURATION_TICKS = (
    1e-3, 1e-2, 0.1, 1, 10, 60, 300, 1200, 3600, 10_800, 36_000, 86_400, 259_200, 864_000,
    2_592_000, 8_640_000, 31_536_000, 315_360_000,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure with the words that stand for it; ``slug`` names it in the page."""

    slug: str
    title: str
    summary: str
    figure: dict[str, Any]


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


def _names(forecast: Forecast, drawn: Sequence[Series]) -> dict[tuple[str, str], tuple[str, int]]:
    """The label and the colour number of each series."""
    several_cnns = len(forecast.query.architectures) > 1
    several_places = len(forecast.query.machines) + len(forecast.query.devices) > 1
    names = {}
    for number, series in enumerate(drawn):
        slug = series.rows[0].architecture
        parts = [slug] if several_cnns or not several_places else []
        if several_places:
            parts.append(series.label)
        names[slug, series.place.key] = (" · ".join(parts), number % SERIES_COLOURS + 1)
    return names


def _epoch_time_chart(
    drawn: Sequence[Series],
    names: dict[tuple[str, str], tuple[str, int]],
    answers: Sequence[Answer],
) -> Chart:
    layout = _layout(_batch_axis(drawn), _duration_axis("time per epoch", _epoch_values(drawn)))
    layout["shapes"], layout["annotations"] = _memory_edges(drawn, names)
    winners = [
        f"{answer.architecture} is fastest on {card.place} at batch {card.batch_size}"
        for answer in answers
        if (card := answer.cards[0]).place
    ]
    return Chart(
        slug="epoch-time",
        title="Epoch time over batch size",
        summary=_summary(f"{_count(len(drawn), 'curve')}; lower is faster.", winners),
        figure={
            "data": _curves(drawn, names, "epoch_seconds"),
            "layout": layout,
        },
    )


def _cost_chart(
    priced: Sequence[Series],
    names: dict[tuple[str, str], tuple[str, int]],
    answers: Sequence[Answer],
    epochs: int,
) -> Chart:
    axis = _usd_axis(f"cost of {_count(epochs, 'epoch')}")
    layout = _layout(_batch_axis(priced), axis)
    layout["shapes"], layout["annotations"] = _memory_edges(priced, names)
    winners = [
        f"{answer.architecture} is cheapest on {card.place} at batch {card.batch_size}"
        for answer in answers
        if (card := answer.cards[1]).place
    ]
    return Chart(
        slug="cost",
        title="Cost over batch size",
        summary=_summary(f"{_count(len(priced), 'curve')}; lower is cheaper.", winners),
        figure={"data": _curves(priced, names, "total_cost_usd"), "layout": layout},
    )


def _time_cost_chart(
    priced: Sequence[Series],
    names: dict[tuple[str, str], tuple[str, int]],
    answers: Sequence[Answer],
) -> Chart:
    times = [row.total_seconds for one in priced for row in one.answered if row.total_seconds]
    data = [_point_trace(one, names, "total_seconds", "total_cost_usd") for one in priced]
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
        title="Time against cost",
        summary=_summary("Every point is one batch size; down and left is better.", fronts),
        figure={
            "data": data,
            "layout": _layout(_duration_axis("total time", times), _usd_axis("total cost")),
        },
    )


def _summary(first: str, parts: Sequence[str]) -> str:
    more = f" and {len(parts) - 4} more" if len(parts) > 4 else ""
    return f"{first} {'; '.join(parts[:4])}{more}." if parts else first


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _curves(
    drawn: Sequence[Series], names: dict[tuple[str, str], tuple[str, int]], key: str
) -> list[dict[str, Any]]:
    traces = []
    if len(drawn) <= MAX_BANDS:
        traces += [_band_trace(series, names, key) for series in drawn]
    traces += [_point_trace(series, names, "batch_size", key) for series in drawn]
    return traces


def _band_trace(
    series: Series, names: dict[tuple[str, str], tuple[str, int]], key: str
) -> dict[str, Any]:
    """The 80 % interval as one filled outline, there and back."""
    name, colour = names[series.rows[0].architecture, series.place.key]
    rows = [
        row
        for row in series.answered
        if row.iteration_ms_low is not None and row.iteration_ms_high is not None
    ]
    sizes = [row.batch_size for row in rows]
    low = [_short(getattr(row, key) * row.iteration_ms_low / row.iteration_ms) for row in rows]
    high = [_short(getattr(row, key) * row.iteration_ms_high / row.iteration_ms) for row in rows]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "showlegend": False,
        "hoverinfo": "skip",
        "x": sizes + sizes[::-1],
        "y": high + low[::-1],
        "fill": "toself",
        "fillcolor": f"@series-{colour}/0.13",
        "line": {"width": 0},
    }


def _point_trace(
    series: Series, names: dict[tuple[str, str], tuple[str, int]], x_key: str, y_key: str
) -> dict[str, Any]:
    name, colour = names[series.rows[0].architecture, series.place.key]
    rows = series.answered
    estimated = sum(row.source == "estimated" for row in rows) * 2 > len(rows)
    over_batch = x_key == "batch_size"
    return {
        "type": "scatter",
        # Lines join what was computed; they are straight, for the curve between is not known.
        "mode": "lines+markers" if over_batch else "markers",
        "name": name,
        "legendgroup": name,
        "x": [_short(getattr(row, x_key)) for row in rows],
        "y": [_short(getattr(row, y_key)) for row in rows],
        "line": {
            "width": 1.6,
            "color": f"@series-{colour}",
            "dash": "dash" if estimated else "solid",
        },
        "marker": {
            "size": 8 if len(rows) <= 24 else 6,
            "color": f"@series-{colour}",
            "symbol": [_symbol(row) for row in rows],
            "line": {"width": 1.4, "color": f"@series-{colour}"},
        },
        "text": [_hover_text(row) for row in rows],
        "hovertemplate": f"<b>{name}</b><br>%{{text}}<extra></extra>",
    }


def _front_trace(front: Sequence[Candidate]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "Pareto front",
        "hoverinfo": "skip",
        "x": [_short(candidate.seconds) for candidate in front],
        "y": [_short(candidate.usd) for candidate in front],
        # A step: between two choices there is nothing to be had.
        "line": {"width": 2, "color": "@muted", "dash": "dot", "shape": "hv"},
    }


def _symbol(row: ForecastRow) -> str:
    symbol = SYMBOL_OF_SOURCE.get(row.source or "", "circle")
    return f"{symbol}-open" if row.fits == "no" else symbol


def _hover_text(row: ForecastRow) -> str:
    assert row.iteration_ms is not None
    error = relative_error(row.iteration_ms, row.iteration_ms_low, row.iteration_ms_high)
    low = (row.iteration_ms_low or row.iteration_ms) / row.iteration_ms
    high = (row.iteration_ms_high or row.iteration_ms) / row.iteration_ms
    epoch, cost = row.epoch_seconds or 0.0, row.total_cost_usd
    lines = [
        f"batch {row.batch_size}, {row.source}",
        f"{format_duration(epoch, error)} an epoch"
        f" ({format_duration_range(epoch * low, epoch * high, error)})",
        f"{format_number(row.images_per_second, error)} images/s, bound by {row.bound_by}",
    ]
    if cost is not None:
        interval = format_usd_range(cost * low, cost * high, error)
        lines.append(f"{format_usd(cost, error)} in total ({interval})")
    fits = {"yes": "fits", "no": "does not fit"}.get(row.fits, "fit unknown")
    lines.append(f"{format_gib(row.memory_mib)}, {fits}")
    return "<br>".join(lines)


def _memory_edges(
    drawn: Sequence[Series], names: dict[tuple[str, str], tuple[str, int]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A dotted line where memory ends, for the few curves that this leaves readable."""
    shapes: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    last_shown = max((row.batch_size or 1 for one in drawn for row in one.answered), default=1)
    edges = [one for one in drawn if one.largest_batch and one.largest_batch <= 2 * last_shown]
    if len(edges) > MAX_MEMORY_EDGES:
        return shapes, annotations
    for position, series in enumerate(edges):
        assert series.largest_batch is not None
        name, colour = names[series.rows[0].architecture, series.place.key]
        shapes.append(
            {
                "type": "line",
                "x0": series.largest_batch,
                "x1": series.largest_batch,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"width": 1, "dash": "dot", "color": f"@series-{colour}"},
            }
        )
        annotations.append(
            {
                "x": math.log10(series.largest_batch),
                "y": 1 - 0.07 * position,
                "yref": "paper",
                "xanchor": "right",
                "yanchor": "top",
                "showarrow": False,
                "text": f"memory ends at {series.largest_batch}"
                + (f" · {name}" if len(edges) > 1 else ""),
                "font": {"size": 12, "color": "@muted"},
                "bgcolor": "@surface/0.8",
            }
        )
    return shapes, annotations


def _layout(x_axis: dict[str, Any], y_axis: dict[str, Any]) -> dict[str, Any]:
    axis = {
        "gridcolor": "@line",
        "linecolor": "@line",
        "zeroline": False,
        "automargin": True,
        "fixedrange": True,
    }
    return {
        "xaxis": axis | x_axis,
        "yaxis": axis | y_axis,
        "font": {"color": "@muted", "size": 13},
        "paper_bgcolor": "@surface/0",
        "plot_bgcolor": "@surface/0",
        "margin": {"l": 8, "r": 12, "t": 8, "b": 8},
        "showlegend": True,
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hoverlabel": {
            "bgcolor": "@surface",
            "bordercolor": "@line",
            "font": {"color": "@ink", "size": 13},
            "align": "left",
        },
        "hovermode": "closest",
        "dragmode": False,
    }


def _batch_axis(drawn: Sequence[Series]) -> dict[str, Any]:
    sizes = {row.batch_size for one in drawn for row in one.answered if row.batch_size}
    ticks = [2**power for power in range(13) if min(sizes) <= 2**power <= max(sizes)]
    ticks = ticks if len(ticks) > 1 else sorted(sizes)[:: max(1, len(sizes) // 8)]
    return _log_axis("batch size", ticks, [str(tick) for tick in ticks])


def _duration_axis(title: str, values: Sequence[float]) -> dict[str, Any]:
    low, high = min(values), max(values)
    ticks = [tick for tick in _DURATION_TICKS if low / 3 <= tick <= high * 3]
    return _log_axis(title, ticks, [format_duration(tick, 0.02) for tick in ticks])


def _usd_axis(title: str) -> dict[str, Any]:
    return {"type": "log", "title": {"text": title}, "tickprefix": "$", "dtick": "D2"}


def _log_axis(title: str, ticks: Sequence[float], texts: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "log",
        "title": {"text": title},
        "tickvals": list(ticks),
        "ticktext": list(texts),
    }


def _epoch_values(drawn: Sequence[Series]) -> list[float]:
    return [row.epoch_seconds for one in drawn for row in one.answered if row.epoch_seconds]


def _short(value: Any) -> Any:
    """Five digits draw the same picture and halve the page."""
    return float(f"{value:.5g}") if isinstance(value, float) else value
