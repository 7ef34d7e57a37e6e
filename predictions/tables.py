"""The forecast's table: the best batch size per CNN and place, each with its whole range.

A large comparison has thousands of rows, so the range rows are put together here as escaped
text; a template would take longer than everything else on the page. Exact values stand in
``<data>`` elements, rounded ones are what people read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from predictions.cards import candidates_of
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
from predictions.forecast import ForecastRow, Series

FITS_WORDS = {"yes": "fits", "no": "does not fit", "unknown": "fit unknown"}


@dataclass(frozen=True, slots=True)
class BestRow:
    """One CNN in one place: its fastest batch size that fits, and everything behind it.

    ``row`` is ``None`` where there is no answer; ``note`` then says why.
    """

    number: int
    series: Series
    architecture: str
    place: str
    place_detail: str
    row: ForecastRow | None
    note: str
    cells: SafeString
    range_body: SafeString
    range_count: int
    remarks: tuple[str, ...]


def make_best_rows(series: Iterable[Series]) -> list[BestRow]:
    """The lines of the main table, in the order of the query."""
    return [_best_row(number, one) for number, one in enumerate(series, start=1)]


def source_badge(source: str | None) -> SafeString:
    """A link to the accuracy page that says the source by shape and by word."""
    if not source:
        return mark_safe("")
    slug = source.replace("+", "-")
    return mark_safe(  # noqa: S308 - source comes from a fixed set and is escaped besides
        f'<a class="badge badge-{escape(slug)}" href="/accuracy/#{escape(slug)}">'
        f"{escape(source)}</a>"
    )


def _best_row(number: int, series: Series) -> BestRow:
    answered = series.answered
    best = _best_answer(series)
    machine, device = series.place.machine, series.place.device
    detail = device.name if machine else "device alone"
    notes = _common_notes(series.rows)
    return BestRow(
        number=number,
        series=series,
        architecture=series.rows[0].architecture,
        place=series.label,
        place_detail=detail,
        row=best,
        note="" if best else (series.rows[0].note or "No answer."),
        cells=_main_cells(best) if best else mark_safe(""),
        range_body=_range_body(series.rows, common=notes),
        range_count=len(answered),
        remarks=(*_memory_remark(series), *notes) if best else (),
    )


def _memory_remark(series: Series) -> tuple[str, ...]:
    largest = series.largest_batch
    return () if largest is None else (f"memory ends at batch {largest:,}",)


def _best_answer(series: Series) -> ForecastRow | None:
    """The fastest row that fits, the smaller batch where two are equal; else the fastest."""
    answered = {row.batch_size: row for row in series.answered}
    if not answered:
        return None
    candidates = candidates_of(series)
    fitting = [one for one in candidates if answered[one.batch_size].fits != "no"]
    best = min(fitting or candidates, key=lambda one: (one.seconds, one.batch_size))
    return answered[best.batch_size]


def _common_notes(rows: Sequence[ForecastRow]) -> list[str]:
    """What the notes of all rows say, once."""
    parts = [set((row.note or "").split("; ")) for row in rows]
    lowered = [{part[:1].lower() + part[1:] for part in note} for note in parts]
    common = set.intersection(*lowered) if lowered else set()
    return [part for part in sorted(common) if part]


def _main_cells(row: ForecastRow) -> SafeString:
    error, low, high = _interval(row)
    epoch, total, cost = row.epoch_seconds or 0.0, row.total_seconds or 0.0, row.total_cost_usd
    usd = (
        f"<small>{escape(format_usd_range(cost * low, cost * high, error))}</small>"
        if cost is not None
        else f"<small>{'no price' if row.machine else 'a device has no price'}</small>"
    )
    duration_range = escape(format_duration_range(epoch * low, epoch * high, error))
    return mark_safe(  # noqa: S308 - every text is escaped
        f'<td data-label="Batch size">{_data(row.batch_size, str(row.batch_size))}</td>'
        f'<td data-label="Epoch time">{_data(epoch, format_duration(epoch, error))}'
        f"<small>{duration_range}</small></td>"
        f'<td data-label="Total time">{_data(total, format_duration(total, error))}</td>'
        f'<td data-label="Total cost">{_data(cost, format_usd(cost, error))}{usd}</td>'
        f'<td data-label="Memory">{_data(row.memory_mib, format_gib(row.memory_mib))}'
        f"<small>{FITS_WORDS[row.fits]}</small></td>"
        f'<td data-label="Source">{source_badge(row.source)}</td>'
    )


def _range_body(rows: Sequence[ForecastRow], common: Sequence[str]) -> SafeString:
    return mark_safe("".join(_range_row(row, common) for row in rows))  # noqa: S308


def _range_row(row: ForecastRow, common: Sequence[str]) -> str:
    if row.iteration_ms is None:
        batch = "" if row.batch_size is None else str(row.batch_size)
        return f'<tr><td>{batch}</td><td colspan="8">{escape(row.note or "")}</td></tr>'
    error, _, _ = _interval(row)
    cost = row.total_cost_usd
    note = "; ".join(
        part
        for part in (row.note or "").split("; ")
        if part and part[:1].lower() + part[1:] not in common
    )
    fits = ' class="unfit"' if row.fits == "no" else ""
    interval = format_number_range(row.iteration_ms_low, row.iteration_ms_high, error)
    return (
        f"<tr{fits}><td>{row.batch_size}</td>"
        f"<td>{_data(row.iteration_ms, format_number(row.iteration_ms, error))}"
        f"<small>{interval}</small></td>"
        f"<td>{_data(row.images_per_second, format_number(row.images_per_second, error))}</td>"
        f"<td>{escape(row.bound_by or '')}</td>"
        f"<td>{_data(row.epoch_seconds, format_duration(row.epoch_seconds, error))}</td>"
        f"<td>{_data(row.total_seconds, format_duration(row.total_seconds, error))}</td>"
        f"<td>{_data(cost, format_usd(cost, error))}</td>"
        f"<td>{_data(row.memory_mib, format_gib(row.memory_mib))}"
        f"<small>{FITS_WORDS[row.fits]}</small></td>"
        f"<td>{escape(row.source or '')}{f'<small>{escape(note)}</small>' if note else ''}</td>"
        "</tr>"
    )


def _interval(row: ForecastRow) -> tuple[float, float, float]:
    """The relative error, and both bounds as shares of the value."""
    assert row.iteration_ms
    low = row.iteration_ms_low if row.iteration_ms_low is not None else row.iteration_ms
    high = row.iteration_ms_high if row.iteration_ms_high is not None else row.iteration_ms
    error = relative_error(row.iteration_ms, row.iteration_ms_low, row.iteration_ms_high)
    return error, low / row.iteration_ms, high / row.iteration_ms


def _data(value: float | None, text: str) -> str:
    return text if value is None else f'<data value="{value!r}">{text}</data>'
