"""The forecast's table: the best batch size per CNN and place, each with its whole range.

A large comparison has thousands of rows, so the range rows are put together here as escaped
text; a template would take longer than everything else on the page. Exact values stand in
``<data>`` elements, rounded ones are what people read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from predictions.cards import Answer
from predictions.display import format_gib
from predictions.row_texts import RowTexts
from predictions.rows import ForecastRow, Series


@dataclass(frozen=True, slots=True)
class BestRow:
    """One CNN in one place: its fastest batch size that fits, and everything behind it.

    ``row`` is ``None`` where there is no answer; ``note`` then says why. ``titles`` are what
    this place wins for this CNN.
    """

    series: Series
    architecture: str
    place: str
    place_detail: str
    titles: tuple[str, ...]
    row: ForecastRow | None
    note: str
    cells: SafeString
    range_body: SafeString
    range_count: int
    remarks: tuple[str, ...]


def make_best_rows(
    series: Iterable[Series],
    texts: Sequence[Sequence[RowTexts]],
    answers: Sequence[Answer],
) -> list[BestRow]:
    """The lines of the main table, in the order of the query."""
    return [
        _best_row(one, texts_of_one, _titles_won(one, answers))
        for one, texts_of_one in zip(series, texts)
    ]


def _titles_won(series: Series, answers: Sequence[Answer]) -> tuple[str, ...]:
    """What a CNN's training is best at in this place: "fastest", "cheapest", ..."""
    return tuple(
        card.title.lower()
        for answer in answers
        if answer.architecture == series.rows[0].architecture
        for card in answer.cards
        if card.place == series.label
    )


def source_badge(source: str | None) -> SafeString:
    """A link to the accuracy page that says the source by shape and by word."""
    if not source:
        return mark_safe("")
    slug = source.replace("+", "-")
    return mark_safe(  # noqa: S308 - source comes from a fixed set and is escaped besides
        f'<a class="badge badge-{escape(slug)}" href="/accuracy/#{escape(slug)}">'
        f"{escape(source)}</a>"
    )


def _best_row(series: Series, texts: Sequence[RowTexts], titles: tuple[str, ...]) -> BestRow:
    answered = series.answered
    texts_by_size = {row.batch_size: words for row, words in zip(answered, texts)}
    best = _best_answer(series)
    machine, device = series.place.machine, series.place.device
    detail = device.name if machine else "device alone"
    notes = _common_notes(series.rows)
    return BestRow(
        series=series,
        architecture=series.rows[0].architecture,
        place=series.label,
        place_detail=detail,
        titles=titles,
        row=best,
        note="" if best else (series.rows[0].note or "No answer."),
        cells=_main_cells(best, texts_by_size[best.batch_size]) if best else mark_safe(""),
        range_body=_range_body(series.rows, texts_by_size, common=notes),
        range_count=len(answered),
        remarks=(*_memory_remarks(series, best), *notes) if best else (),
    )


def _memory_remarks(series: Series, best: ForecastRow) -> tuple[str, ...]:
    """Where memory ends, and how much of it the best batch leaves or lacks."""
    remarks = []
    usable_mib = series.place.device.usable_memory_mib
    if usable_mib is not None and best.memory_mib is not None:
        margin, usable = usable_mib - best.memory_mib, format_gib(usable_mib)
        remarks.append(
            f"{format_gib(margin)} of the {usable} usable are left"
            if margin >= 0
            else f"needs {format_gib(-margin)} more than the {usable} usable"
        )
    if series.largest_batch is not None:
        remarks.append(f"memory ends at batch {series.largest_batch:,}")
    return tuple(remarks)


def _best_answer(series: Series) -> ForecastRow | None:
    """The fastest row that fits, the smaller batch where two are equal; else the fastest."""
    answered = series.answered
    safe = [row for row in answered if series.is_safe(row)]
    return min(
        safe or answered,
        key=lambda row: (row.total_seconds or 0.0, row.batch_size or 0),
        default=None,
    )


def _common_notes(rows: Sequence[ForecastRow]) -> list[str]:
    """What the notes of all rows say, once."""
    notes = [{_lowered(part) for part in (row.note or "").split("; ")} for row in rows]
    return sorted(part for part in set.intersection(*notes) if part)


def _lowered(part: str) -> str:
    return part[:1].lower() + part[1:]


def _main_cells(row: ForecastRow, texts: RowTexts) -> SafeString:
    usd = texts.cost_range or ("no price" if row.machine else "a device has no price")
    return mark_safe(  # noqa: S308 - every text is a number or a word of ours
        f'<td data-label="Batch size">{_data(row.batch_size, str(row.batch_size))}</td>'
        f'<td data-label="Epoch time">{_time(row.epoch_seconds, texts.epoch)}'
        f"<small>{texts.epoch_range}</small></td>"
        f'<td data-label="Total time">{_time(row.total_seconds, texts.total)}</td>'
        f'<td data-label="Total cost">{_data(row.total_cost_usd, texts.cost)}'
        f"<small>{usd}</small></td>"
        f'<td data-label="Memory">{_data(row.memory_mib, texts.memory)}'
        f"<small>{texts.fits}</small></td>"
        f'<td data-label="Source">{source_badge(row.source)}</td>'
    )


def _range_body(
    rows: Sequence[ForecastRow],
    texts: Mapping[int | None, RowTexts],
    common: Sequence[str],
) -> SafeString:
    return mark_safe(  # noqa: S308 - notes are escaped, the rest are numbers and words of ours
        "".join(
            _range_row(row, texts[row.batch_size], common)
            if row.batch_size in texts
            else _refused_row(row)
            for row in rows
        )
    )


def _refused_row(row: ForecastRow) -> str:
    batch = "" if row.batch_size is None else str(row.batch_size)
    return f'<tr><td>{batch}</td><td colspan="8">{escape(row.note or "")}</td></tr>'


def _range_row(row: ForecastRow, texts: RowTexts, common: Sequence[str]) -> str:
    fits = ' class="unfit"' if row.fits == "no" else ""
    return (
        f"<tr{fits}><td>{row.batch_size}</td>"
        f"<td>{_data(row.iteration_ms, texts.iteration)}"
        f"<small>{texts.iteration_range}</small></td>"
        f"<td>{_data(row.images_per_second, texts.images_per_second)}</td>"
        f"<td>{row.bound_by or ''}</td>"
        f"<td>{_time(row.epoch_seconds, texts.epoch)}</td>"
        f"<td>{_time(row.total_seconds, texts.total)}</td>"
        f"<td>{_data(row.total_cost_usd, texts.cost)}</td>"
        f"<td>{_data(row.memory_mib, texts.memory)}<small>{texts.fits}</small></td>"
        f"<td>{row.source or ''}{_own_note(row, common)}</td></tr>"
    )


def _own_note(row: ForecastRow, common: Sequence[str]) -> str:
    """What the row's note says beyond that of all rows."""
    if not row.note:
        return ""
    parts = [part for part in row.note.split("; ") if _lowered(part) not in common]
    return f"<small>{escape('; '.join(parts))}</small>" if parts else ""


def _data(value: float | None, text: str) -> str:
    return text if value is None else f'<data value="{value!r}">{text}</data>'


def _time(seconds: float | None, text: str) -> str:
    """Like :func:`_data`; the class lets the browser show it in seconds or hours instead."""
    return text if seconds is None else f'<data class="time" value="{seconds!r}">{text}</data>'
