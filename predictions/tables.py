"""The forecast's table: the best batch size per CNN and place, each with its whole range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.utils.safestring import SafeString, mark_safe

from predictions.cards import Answer
from predictions.display import format_gib
from predictions.form import SelectOption
from predictions.measuring import LayerCounts, measuring_sentence
from predictions.row_texts import RowTexts, shown_cost
from predictions.rows import Forecast, ForecastRow, Series
from predictions.scaling import extras_note
from predictions.table_cells import lowered, main_cells, range_body
from predictions.table_view import TableView

Pairs = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class BestRow:
    """One CNN in one place: its fastest batch size that fits, and everything behind it.

    ``row`` is ``None`` where there is no answer; ``note`` then says why. ``titles`` are what
    this place wins for this CNN. ``plan_path`` leads operators to a benchmark of what is missing.
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
    is_reference: bool
    plan_path: str


@dataclass(frozen=True, slots=True)
class Heading:
    """A column; ``sort_query`` is the query string that sorts by it, empty where nothing does.

    ``direction`` is ``ascending`` or ``descending`` where the table is sorted by it.
    """

    label: str
    key: str = ""
    sort_query: str = ""
    direction: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """The lines as the view wants them, and what can be chosen around them.

    ``lost_reference`` names a reference that is not in the comparison.
    """

    view: TableView
    headings: tuple[Heading, ...]
    lines: tuple[BestRow, ...]
    line_count: int
    references: tuple[SelectOption, ...]
    sortings: tuple[SelectOption, ...]
    lost_reference: str
    query_pairs: Pairs
    view_pairs: Pairs
    link_query: str
    rows_query: str


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all lines of a table have in common; ``reference`` is the row they are compared with."""

    answers: Sequence[Answer]
    layers: Mapping[int, LayerCounts]
    view: TableView
    reference: ForecastRow | None


def make_table(
    forecast: Forecast,
    texts: Sequence[Sequence[RowTexts]],
    answers: Sequence[Answer],
    layers: Mapping[int, LayerCounts],
    view: TableView,
) -> Table:
    """The table of a forecast in one view; ``texts`` and ``layers`` belong to its series."""
    best = {series.key: _best_answer(series) for series in forecast.series}
    references = tuple(
        SelectOption(
            value=f"{series.rows[0].architecture}@{series.place.key}",
            label=f"{series.rows[0].architecture} on {series.label}",
            chosen=f"{series.rows[0].architecture}@{series.place.key}" == view.reference,
        )
        for series in forecast.series
        if best[series.key]
    )
    is_known = any(option.chosen for option in references)
    slug, _, place = view.reference.partition("@")
    reference = best.get((slug, place)) if is_known else None
    shared = _Shared(answers, layers, view, reference)
    shown = [
        (series, texts_of_one)
        for series, texts_of_one in zip(forecast.series, texts)
        if _is_shown(series, view)
    ]
    if view.sort:
        shown.sort(key=lambda pair: _sort_value(pair[0], best[pair[0].key], view))
        if view.descends:
            shown.reverse()
        # What has no answer stays below, whichever way round.
        shown.sort(key=lambda pair: best[pair[0].key] is None)
    lines = tuple(
        _best_row(series, texts_of_one, best[series.key], shared) for series, texts_of_one in shown
    )
    query_pairs, view_pairs = forecast.query.parameters(), view.parameters()
    return Table(
        view=view,
        headings=_headings(query_pairs, view),
        lines=lines,
        line_count=len(forecast.series),
        references=references,
        sortings=_sortings(view),
        lost_reference="" if is_known else view.reference,
        query_pairs=query_pairs,
        view_pairs=view_pairs,
        link_query=_query_string([*query_pairs, *view_pairs]),
        rows_query=forecast.query.to_query_string(),
    )


def _sortings(view: TableView) -> tuple[SelectOption, ...]:
    options = [("", "the question")]
    for label, key in _columns(view):
        word = label[:1].lower() + label[1:] if key != "name" else "machine"
        options += [(key, word), (f"-{key}", f"{word}, descending")]
    return tuple(SelectOption(value, label, value == view.sort) for value, label in options)


def _query_string(pairs: Pairs) -> str:
    return urlencode(pairs, safe=",@")


def _columns(view: TableView) -> list[tuple[str, str]]:
    """Label and key of each column that can be sorted by."""
    columns = [
        ("CNN and machine", "name"),
        ("Batch size", "batch_size"),
        ("Epoch time", "epoch_seconds"),
        ("Total time", "total_seconds"),
        ("Total cost", "total_cost_usd"),
        ("Memory", "memory_mib"),
    ]
    if view.per == "epoch":
        columns[3:5] = [("Cost of an epoch", "total_cost_usd")]
    return columns


def _headings(query_pairs: Pairs, view: TableView) -> tuple[Heading, ...]:
    headings = []
    for label, key in _columns(view):
        is_sorted = view.sort_key == key
        ascends = is_sorted and not view.descends
        # The chart in front may change without the table: the page adds it.
        sorted_view = replace(view, sort=f"-{key}" if ascends else key, chart="")
        headings.append(
            Heading(
                label,
                key,
                _query_string([*query_pairs, *sorted_view.parameters()]),
                "" if not is_sorted else "ascending" if ascends else "descending",
            )
        )
    return (*headings, Heading("Source"))


def _is_shown(series: Series, view: TableView) -> bool:
    """Whether a line holds every word that is looked for."""
    text = f"{series.rows[0].architecture} {series.label} {series.place.device.name}".lower()
    return all(word in text for word in view.show.lower().split())


def _sort_value(series: Series, best: ForecastRow | None, view: TableView) -> tuple[float, str]:
    name = f"{series.label} {series.rows[0].architecture}"
    if best is None or view.sort_key == "name":
        return (0.0, name)
    if view.sort_key == "total_cost_usd":
        value = shown_cost(best, view)
    else:
        value = getattr(best, view.sort_key)
    missing = float("-inf") if view.descends else float("inf")
    return (missing if value is None else value, name)


def _titles_won(series: Series, answers: Sequence[Answer]) -> tuple[str, ...]:
    """What a CNN's training is best at in this place: "fastest", "cheapest", ..."""
    return tuple(
        card.title.lower()
        for answer in answers
        if answer.architecture == series.rows[0].architecture
        for card in answer.cards
        if card.place == series.label
    )


def _best_row(
    series: Series,
    texts: Sequence[RowTexts],
    best: ForecastRow | None,
    shared: _Shared,
) -> BestRow:
    view, reference = shared.view, shared.reference
    answered = series.answered
    texts_by_size = {row.batch_size: words for row, words in zip(answered, texts)}
    machine, device = series.place.machine, series.place.device
    architecture = series.rows[0].architecture
    # What the totals hold stands once below the table.
    extras = extras_note(series.training)
    notes = _common_notes(series.rows)
    remarks = [note for note in notes if note != extras]
    measuring = measuring_sentence(series, shared.layers)
    return BestRow(
        series=series,
        architecture=architecture,
        place=series.label,
        place_detail=device.name if machine else "device alone",
        titles=_titles_won(series, shared.answers),
        row=best,
        note="" if best else (series.rows[0].note or "No answer."),
        cells=(
            main_cells(best, texts_by_size[best.batch_size], view, reference)
            if best
            else mark_safe("")
        ),
        range_body=range_body(series.rows, texts_by_size, notes, view),
        range_count=len(answered),
        remarks=(*_memory_remarks(series, best), *remarks, *filter(None, [measuring]))
        if best
        else (),
        is_reference=best is not None and best is reference,
        plan_path=(
            f"/jobs/new/?{urlencode({'machine': machine.slug, 'architecture': architecture})}"
            if machine and measuring
            else ""
        ),
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
    notes = [{lowered(part) for part in (row.note or "").split("; ")} for row in rows]
    return sorted(part for part in set.intersection(*notes) if part)
