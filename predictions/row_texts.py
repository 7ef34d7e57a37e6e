"""A row's figures as people read them, put into words once for table and chart alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from predictions.display import (
    format_duration,
    format_duration_range,
    format_gib,
    format_number,
    format_number_range,
    format_usd,
    format_usd_range,
    relative_error,
)
from predictions.rows import ForecastRow, Series
from predictions.table_view import TableView

FITS_WORDS = {"yes": "fits", "no": "does not fit", "unknown": "fit unknown"}
# Symbol and seconds of the units in which durations are plain numbers.
PLAIN_UNITS = {"hours": ("h", 3600.0), "seconds": ("s", 1.0)}


@dataclass(frozen=True, slots=True)
class RowTexts:
    """The texts of one answered row; none has more digits than its interval allows.

    ``cost`` and ``cost_range`` belong to the whole training or to one epoch, as the view says.
    """

    iteration: str
    iteration_range: str
    images_per_second: str
    epoch: str
    epoch_range: str
    total: str
    cost: str
    cost_range: str
    memory: str
    fits: str


def shown_cost(row: ForecastRow, view: TableView) -> float | None:
    """The cost that the view asks for: of the whole training, or of one epoch without extras."""
    if view.per == "total" or row.total_cost_usd is None:
        return row.total_cost_usd
    assert row.usd_per_hour is not None and row.epoch_seconds is not None
    return row.epoch_seconds * row.usd_per_hour / 3600


def texts_of(row: ForecastRow, series: Series, view: TableView) -> RowTexts:
    """Put one row of a series into words; it must hold a time."""
    assert row.iteration_ms
    low_ms = row.iteration_ms_low if row.iteration_ms_low is not None else row.iteration_ms
    high_ms = row.iteration_ms_high if row.iteration_ms_high is not None else row.iteration_ms
    low, high = low_ms / row.iteration_ms, high_ms / row.iteration_ms
    error = relative_error(row.iteration_ms, row.iteration_ms_low, row.iteration_ms_high)
    epoch, cost = row.epoch_seconds or 0.0, shown_cost(row, view)
    cost_low, cost_high = series.total_interval(row) if view.per == "total" else (low, high)
    return RowTexts(
        iteration=format_number(row.iteration_ms, error),
        iteration_range=format_number_range(low_ms, high_ms, error),
        images_per_second=format_number(row.images_per_second, error),
        epoch=_duration(epoch, error, view),
        epoch_range=_duration_range(epoch * low, epoch * high, error, view),
        total=_duration(row.total_seconds or 0.0, error, view),
        cost=format_usd(cost, error),
        cost_range=(
            "" if cost is None else format_usd_range(cost * cost_low, cost * cost_high, error)
        ),
        memory=format_gib(row.memory_mib),
        fits=FITS_WORDS[row.fits],
    )


def texts_of_series(series: Iterable[Series], view: TableView) -> list[list[RowTexts]]:
    """The texts of the answered rows of each series, in their order."""
    return [[texts_of(row, one, view) for row in one.answered] for one in series]


def _duration(seconds: float, error: float, view: TableView) -> str:
    if view.times not in PLAIN_UNITS:
        return format_duration(seconds, error)
    symbol, unit = PLAIN_UNITS[view.times]
    return f"{format_number(seconds / unit, error)} {symbol}"


def _duration_range(low: float, high: float, error: float, view: TableView) -> str:
    if view.times not in PLAIN_UNITS:
        return format_duration_range(low, high, error)
    symbol, unit = PLAIN_UNITS[view.times]
    return f"{format_number_range(low / unit, high / unit, error)} {symbol}"
