"""A forecast as plain text, at most 100 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from predictions.display import (
    format_duration,
    format_exact_usd,
    format_gib,
    format_number,
    format_number_range,
    format_usd,
    relative_error,
)
from predictions.query import ForecastQuery
from predictions.rows import Forecast, ForecastRow, Series

WIDTH = 100
_GAP = "  "


def to_text_table(forecast: Forecast) -> str:
    """One table per CNN and place, with what its rows have in common above it."""
    blocks = ["\n".join(_series_lines(series, forecast.query)) for series in forecast.series]
    return "\n\n".join(blocks)


def _series_lines(series: Series, query: ForecastQuery) -> Iterator[str]:
    with_total = query.epochs != 1
    first = series.rows[0]
    title = f"{first.architecture} at {first.image_size} px on {series.label}"
    if series.place.machine and series.place.device.name:
        title += f": {series.place.device.name}"
    yield from textwrap.wrap(title, WIDTH)
    facts = [f"{query.examples:,} examples in an epoch"]
    if with_total:
        facts.append(f"{query.epochs:,} epochs")
    facts.append(first.precision)
    if first.stack:
        facts.append(first.stack)
    if first.usd_per_hour is not None:
        facts.append(
            f"{format_exact_usd(first.usd_per_hour)} an hour {first.price_kind} in "
            f"{first.price_region} ({first.price_as_of or 'undated'})"
        )
    yield from textwrap.wrap("; ".join(facts), WIDTH)
    if series.answered:
        yield from _aligned(
            [_heading(with_total), *(_cells(row, with_total) for row in series.rows)]
        )
    yield from _note_lines(series.rows)


def _heading(with_total: bool) -> list[str]:
    total = ["total"] if with_total else []
    return ["batch", "iteration", "80 % interval", "images/s", "epoch", *total, "cost", "memory",
            "fits", "source"]  # fmt: skip


def _cells(row: ForecastRow, with_total: bool) -> list[str]:
    error = 0.05
    if row.iteration_ms is not None:
        error = relative_error(row.iteration_ms, row.iteration_ms_low, row.iteration_ms_high)
    return [
        str(row.batch_size),
        f"{format_number(row.iteration_ms, error)} ms",
        format_number_range(row.iteration_ms_low, row.iteration_ms_high, error),
        format_number(row.images_per_second, error),
        format_duration(row.epoch_seconds, error),
        *([format_duration(row.total_seconds, error)] if with_total else []),
        format_usd(row.total_cost_usd, error),
        format_gib(row.memory_mib),
        row.fits,
        row.source or "",
    ]


def _aligned(table: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(cells[column]) for cells in table) for column in range(len(table[0]))]
    for *numbers, fits, source in table:
        aligned = [cell.rjust(width) for cell, width in zip(numbers, widths)]
        yield _GAP.join([*aligned, fits.ljust(widths[-2]), source])


def _note_lines(rows: Sequence[ForecastRow]) -> Iterator[str]:
    """Each part of a note once, with the batch sizes it belongs to where it is not for all."""
    sizes_of: dict[str, list[str]] = {}
    for row in rows:
        for part in (row.note or "").split("; "):
            if part:
                sizes_of.setdefault(part[0].upper() + part[1:], []).append(str(row.batch_size))
    for note, sizes in sizes_of.items():
        where = "" if len(sizes) == len(rows) else f"Batch {', '.join(sizes)}: "
        yield from textwrap.wrap(f"{where}{note}.", WIDTH)
