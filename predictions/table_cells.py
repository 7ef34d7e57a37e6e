"""The table's cells as escaped text.

A large comparison has thousands of rows; a template would take longer than everything else on the
page. Exact values stand in ``<data>`` elements, rounded ones are what people read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from predictions.display import format_number, relative_error
from predictions.row_texts import RowTexts, shown_cost
from predictions.rows import ForecastRow
from predictions.table_view import TableView


def source_badge(source: str | None) -> SafeString:
    """A link to the accuracy page that says the source by shape and by word."""
    if not source:
        return mark_safe("")
    slug = source.replace("+", "-")
    return mark_safe(  # noqa: S308 - source comes from a fixed set and is escaped besides
        f'<a class="badge badge-{escape(slug)}" href="/accuracy/#{escape(slug)}">'
        f"{escape(source)}</a>"
    )


def main_cells(
    row: ForecastRow, texts: RowTexts, view: TableView, reference: ForecastRow | None
) -> SafeString:
    """The cells of a line's best batch size, each beside the reference's where there is one."""
    cost, cost_label = shown_cost(row, view), "Total cost"
    beside = texts.cost_range or ("no price" if row.machine else "a device has no price")
    total = (
        f'<td data-label="Total time">{_data(row.total_seconds, texts.total)}'
        f"{_ratio(row, reference, lambda one: one.total_seconds)}</td>"
    )
    if view.per == "epoch":
        total, cost_label = "", "Cost of an epoch"
    return mark_safe(  # noqa: S308 - every text is a number or a word of ours
        f'<td data-label="Batch size">{_data(row.batch_size, str(row.batch_size))}</td>'
        f'<td data-label="Epoch time">{_data(row.epoch_seconds, texts.epoch)}'
        f"<small>{texts.epoch_range}</small>"
        f"{_ratio(row, reference, lambda one: one.epoch_seconds)}</td>"
        f"{total}"
        f'<td data-label="{cost_label}">{_data(cost, texts.cost)}'
        f"<small>{beside}</small>{_ratio(row, reference, lambda one: shown_cost(one, view))}</td>"
        f'<td data-label="Memory">{_data(row.memory_mib, texts.memory)}'
        f"<small>{texts.fits}</small>"
        f"{_ratio(row, reference, lambda one: one.memory_mib)}</td>"
        f'<td data-label="Source">{source_badge(row.source)}</td>'
    )


def range_body(
    rows: Sequence[ForecastRow],
    texts: Mapping[int | None, RowTexts],
    common: Sequence[str],
    view: TableView,
) -> SafeString:
    """The lines of every batch size; ``common`` are the notes that stand elsewhere already."""
    return mark_safe(  # noqa: S308 - notes are escaped, the rest are numbers and words of ours
        "".join(
            _range_row(row, texts[row.batch_size], common, view)
            if row.batch_size in texts
            else _refused_row(row)
            for row in rows
        )
    )


def lowered(part: str) -> str:
    """A part of a note as it stands within a sentence."""
    return part[:1].lower() + part[1:]


def _refused_row(row: ForecastRow) -> str:
    batch = "" if row.batch_size is None else str(row.batch_size)
    return f'<tr><td>{batch}</td><td colspan="8">{escape(row.note or "")}</td></tr>'


def _range_row(row: ForecastRow, texts: RowTexts, common: Sequence[str], view: TableView) -> str:
    fits = ' class="unfit"' if row.fits == "no" else ""
    total = f"<td>{_data(row.total_seconds, texts.total)}</td>" if view.per == "total" else ""
    return (
        f"<tr{fits}><td>{row.batch_size}</td>"
        f"<td>{_data(row.iteration_ms, texts.iteration)}"
        f"<small>{texts.iteration_range}</small></td>"
        f"<td>{_data(row.images_per_second, texts.images_per_second)}</td>"
        f"<td>{row.bound_by or ''}</td>"
        f"<td>{_data(row.epoch_seconds, texts.epoch)}</td>"
        f"{total}"
        f"<td>{_data(shown_cost(row, view), texts.cost)}</td>"
        f"<td>{_data(row.memory_mib, texts.memory)}<small>{texts.fits}</small></td>"
        f"<td>{row.source or ''}{_own_note(row, common)}</td></tr>"
    )


def _own_note(row: ForecastRow, common: Sequence[str]) -> str:
    """What the row's note says beyond that of all rows."""
    if not row.note:
        return ""
    parts = [part for part in row.note.split("; ") if lowered(part) not in common]
    return f"<small>{escape('; '.join(parts))}</small>" if parts else ""


def _data(value: float | None, text: str) -> str:
    return text if value is None else f'<data value="{value!r}">{text}</data>'


def _ratio(
    row: ForecastRow,
    reference: ForecastRow | None,
    figure: Callable[[ForecastRow], float | None],
) -> str:
    """How many times the reference's figure it is, with the digits that both errors allow."""
    if reference is None or row is reference:
        return ""
    value, of = figure(row), figure(reference)
    if value is None or not of:
        return ""
    error = max(
        relative_error(one.iteration_ms or 0.0, one.iteration_ms_low, one.iteration_ms_high)
        for one in (row, reference)
    )
    return f'<small class="ratio">{format_number(value / of, error)} x reference</small>'
