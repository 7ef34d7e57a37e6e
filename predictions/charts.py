"""Plotly figures as plain dictionaries, made on the server.

Colours are tokens such as ``@series-1`` or ``@series-1/0.12`` (with an opacity): the browser
replaces them by the style sheet's colours, so that one figure serves light and dark. Sources are
told apart by marker shape, estimates also by a dashed line, points that do not fit are hollow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from predictions.cards import Answer
from predictions.chart_layout import duration_axis, figure_layout, log_axis, usd_axis
from predictions.chart_traces import (
    CurveNames,
    add_line_labels,
    curve_traces,
    front_trace,
    memory_edges,
    name_curves,
    point_trace,
    winner_trace,
)
from predictions.row_texts import RowTexts
from predictions.rows import Forecast, ForecastRow, Series
from predictions.table_view import TableView


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
    names = name_curves(forecast, drawn)
    entries = []
    for series in drawn:
        name = names[series.key]
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
    names = name_curves(forecast, drawn)
    charts = []
    if drawn:
        charts.append(_epoch_time_chart(drawn, names, answers))
    if priced:
        charts.append(_cost_chart(priced, names, answers, forecast.query.epochs))
        charts.append(_time_cost_chart(priced, names, answers))
    return charts


def _epoch_time_chart(
    drawn: Sequence[Series],
    names: CurveNames,
    answers: Sequence[Answer],
) -> Chart:
    layout = figure_layout(
        _batch_axis(drawn), duration_axis("time per epoch", _epoch_values(drawn))
    )
    layout["shapes"] = memory_edges(drawn, names)
    add_line_labels(layout, drawn, names, "epoch_seconds")
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
                *curve_traces(drawn, names, "epoch_seconds"),
                *winner_trace("fastest", [answer.cards[0] for answer in answers], "epoch_seconds"),
            ],
            "layout": layout,
        },
    )


def _cost_chart(
    priced: Sequence[Series],
    names: CurveNames,
    answers: Sequence[Answer],
    epochs: int,
) -> Chart:
    costs = [row.total_cost_usd for one in priced for row in one.answered if row.total_cost_usd]
    axis = usd_axis(f"cost of {_count(epochs, 'epoch')}", costs)
    layout = figure_layout(_batch_axis(priced), axis)
    layout["shapes"] = memory_edges(priced, names)
    add_line_labels(layout, priced, names, "total_cost_usd")
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
                *curve_traces(priced, names, "total_cost_usd"),
                *winner_trace(
                    "cheapest", [answer.cards[1] for answer in answers], "total_cost_usd"
                ),
            ],
            "layout": layout,
        },
    )


def _time_cost_chart(
    priced: Sequence[Series],
    names: CurveNames,
    answers: Sequence[Answer],
) -> Chart:
    times = [row.total_seconds for one in priced for row in one.answered if row.total_seconds]
    costs = [row.total_cost_usd for one in priced for row in one.answered if row.total_cost_usd]
    data = [point_trace(one, names, "total_seconds", "total_cost_usd") for one in priced]
    data += winner_trace(
        "best trade-off",
        [answer.cards[2] for answer in answers],
        "total_cost_usd",
        x_key="total_seconds",
    )
    data += [front_trace(answer.advice.front) for answer in answers if len(answer.advice.front) > 1]
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


def _hover_text(row: ForecastRow, texts: RowTexts, view: TableView) -> str:
    span = "in total" if view.per == "total" else "an epoch"
    cost = f"\n{texts.cost} {span} ({texts.cost_range})" if texts.cost_range else ""
    return (
        f"batch {row.batch_size}, {row.source}\n"
        f"{texts.epoch} an epoch ({texts.epoch_range})\n"
        f"{texts.images_per_second} images/s, bound by {row.bound_by}"
        f"{cost}\n{texts.memory}, {texts.fits}"
    )


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
