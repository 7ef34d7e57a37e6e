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

FITS_WORDS = {"yes": "fits", "no": "does not fit", "unknown": "fit unknown"}


@dataclass(frozen=True, slots=True)
class RowTexts:
    """The texts of one answered row; none has more digits than its interval allows."""

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


def texts_of(row: ForecastRow, series: Series) -> RowTexts:
    """Put one row of a series into words; it must hold a time."""
    assert row.iteration_ms
    low_ms = row.iteration_ms_low if row.iteration_ms_low is not None else row.iteration_ms
    high_ms = row.iteration_ms_high if row.iteration_ms_high is not None else row.iteration_ms
    low, high = low_ms / row.iteration_ms, high_ms / row.iteration_ms
    total_low, total_high = series.total_interval(row)
    error = relative_error(row.iteration_ms, row.iteration_ms_low, row.iteration_ms_high)
    epoch, cost = row.epoch_seconds or 0.0, row.total_cost_usd
    cost_range = (
        "" if cost is None else format_usd_range(cost * total_low, cost * total_high, error)
    )
    return RowTexts(
        iteration=format_number(row.iteration_ms, error),
        iteration_range=format_number_range(low_ms, high_ms, error),
        images_per_second=format_number(row.images_per_second, error),
        epoch=format_duration(epoch, error),
        epoch_range=format_duration_range(epoch * low, epoch * high, error),
        total=format_duration(row.total_seconds, error),
        cost=format_usd(cost, error),
        cost_range=cost_range,
        memory=format_gib(row.memory_mib),
        fits=FITS_WORDS[row.fits],
    )


def texts_of_series(series: Iterable[Series]) -> list[list[RowTexts]]:
    """The texts of the answered rows of each series, in their order."""
    return [[texts_of(row, one) for row in one.answered] for one in series]
