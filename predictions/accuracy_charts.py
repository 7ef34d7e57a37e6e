"""Predicted against measured iteration times, with every CNN left out, as plotly figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from predictions.accuracy import MachineAccuracy, Point
from predictions.chart_layout import (
    DURATION_TICKS,
    figure_layout,
    five_digits,
    log_axis,
    round_ticks,
)
from predictions.charts import Chart

BAND_PCT = 10
"""Half width of the band that is drawn around no error at all."""


def make_accuracy_charts(machines: Sequence[MachineAccuracy]) -> list[Chart]:
    """Two charts for each machine with points: times on both axes, and errors over time."""
    drawn = [machine for machine in machines if machine.points]
    charts = []
    for number, machine in enumerate(drawn):
        prefix = f"{machine.machine}: " if len(drawn) > 1 else ""
        charts += [
            Chart(
                slug=f"predicted-{number}",
                tab=f"{prefix}Predicted against measured",
                title=f"Predicted against measured time of an iteration on {machine.machine}",
                summary=_scatter_summary(machine.points),
                figure=_scatter_figure(machine.points, number),
            ),
            Chart(
                slug=f"errors-{number}",
                tab=f"{prefix}Errors",
                title=f"Error over measured time on {machine.machine}",
                summary=_error_summary(machine.points),
                figure=_error_figure(machine.points, number),
            ),
        ]
    return charts


def make_accuracy_hover_texts(machines: Sequence[MachineAccuracy]) -> list[list[str]]:
    """What hovering over each point says, for each machine with points, in their order."""
    return [
        [
            f"{point.architecture}, batch {point.batch_size}\n"
            f"{point.times_text} (measured, predicted)\n{point.error_text}"
            for point in machine.points
        ]
        for machine in machines
        if machine.points
    ]


def _scatter_summary(points: Sequence[Point]) -> str:
    cnns = len({point.architecture for point in points})
    inside = sum(abs(point.error_pct) <= BAND_PCT for point in points)
    return (
        f"{len(points)} iterations of {cnns} CNNs, each predicted by a model that had not seen "
        f"its CNN; across what was measured, up what was predicted. {inside} "
        f"({100 * inside / len(points):.0f} %) lie in the band of ±{BAND_PCT} %."
    )


def _error_summary(points: Sequence[Point]) -> str:
    worst = max(points, key=lambda point: abs(point.error_pct))
    longer = sum(point.error_pct > 0 for point in points)
    return (
        f"Above the line the forecast was too long ({longer} of {len(points)}), below too short. "
        f"The worst is {worst.architecture} at batch {worst.batch_size}: {worst.error_text}."
    )


def _scatter_figure(points: Sequence[Point], number: int) -> dict[str, Any]:
    measured, predicted = _seconds(points)
    ends = [0.8 * min(measured + predicted), 1.25 * max(measured + predicted)]
    factor = 1 + BAND_PCT / 100
    band = _band(ends, [factor * end for end in ends], [end / factor for end in ends])
    layout = figure_layout(
        _time_axis("measured time of an iteration", ends),
        _time_axis("predicted time", ends),
    )
    return {
        "data": [band, _line(ends, ends), _markers(points, measured, predicted, number)],
        "layout": layout,
    }


def _error_figure(points: Sequence[Point], number: int) -> dict[str, Any]:
    measured, _ = _seconds(points)
    ends = [0.8 * min(measured), 1.25 * max(measured)]
    band = _band(ends, [BAND_PCT] * 2, [-BAND_PCT] * 2)
    errors = [point.error_pct for point in points]
    error_axis = {"title": {"text": "error"}, "ticksuffix": " %"}
    return {
        "data": [band, _line(ends, [0, 0]), _markers(points, measured, errors, number)],
        "layout": figure_layout(_time_axis("measured time of an iteration", ends), error_axis),
    }


def _time_axis(title: str, ends: Sequence[float]) -> dict[str, Any]:
    ticks = round_ticks(ends[0], ends[1], DURATION_TICKS)
    return log_axis(
        title, ticks, [f"{tick:g} s" if tick >= 1 else f"{1000 * tick:g} ms" for tick in ticks]
    )


def _seconds(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return (
        [point.measured_ms / 1000 for point in points],
        [point.predicted_ms / 1000 for point in points],
    )


def _markers(
    points: Sequence[Point], x: Sequence[float], y: Sequence[float], number: int
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "left-out CNNs",
        "x": [five_digits(value) for value in x],
        "y": [five_digits(value) for value in y],
        "marker": {"size": 7, "color": "@series-1/0.65", "symbol": "square"},
        "text": number,
        "hovertemplate": "%{text}<extra></extra>",
    }


def _line(x: Sequence[float], y: Sequence[float]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "no error",
        "hoverinfo": "skip",
        "x": list(x),
        "y": list(y),
        "line": {"width": 1.4, "color": "@muted"},
    }


def _band(ends: Sequence[float], high: Sequence[float], low: Sequence[float]) -> dict[str, Any]:
    """One filled outline, there and back."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"±{BAND_PCT} %",
        "hoverinfo": "skip",
        "x": [*ends, *reversed(ends)],
        "y": [*high, *reversed(low)],
        "fill": "toself",
        "fillcolor": "@muted/0.25",
        "line": {"width": 0},
    }
