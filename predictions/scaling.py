"""From one stored curve to the rows of one CNN in one place.

``epoch seconds = ceil(examples / batch size) * iteration``; with an input pipeline of r images per
second an iteration takes ``max(iteration, batch size / r)``. From there to totals and cost see
:class:`predictions.totals.Training` (docs/method.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from benchmarking.models import Architecture, Machine
from benchmarking.specs import Precision
from predictions.advice import find_jumps, is_slower_per_example
from predictions.curves import STANDARD_BATCH_SIZES, Place
from predictions.display import with_cents
from predictions.models import ForecastCurve
from predictions.prices import ChosenPrice
from predictions.query import BATCH_SIZE_LADDER, DEFAULT_PRECISION, ForecastQuery
from predictions.rows import ForecastRow, Series
from predictions.totals import SECONDS_PER_HOUR, Training


def make_series(
    query: ForecastQuery,
    slug: str,
    architecture: Architecture | None,
    place: Place,
    price: ChosenPrice | None,
    curve: ForecastCurve | None,
) -> Series:
    """The rows of the CNN ``slug`` in one place; without a curve, one row that says why."""
    precision = resolve_precision(query, place)
    training = query.training()
    frame = ForecastRow(
        architecture=slug,
        machine=place.machine.slug if place.machine else None,
        device=place.device.slug,
        # What a device lacks is named as it was asked for.
        precision=precision.value if precision else query.precision,
        image_size=architecture.image_size if architecture else query.image_size_of(slug),
        usd_per_hour=float(price.usd_per_hour) if price else None,
        price_kind=price.kind if price else None,
        price_region=price.region if price else None,
        price_as_of=price.as_of if price else None,
    )
    if curve is None:
        note = _refusal(query, slug, architecture, place)
        return Series(architecture, place, price, (replace(frame, note=note),), training)
    if not any(curve.points["iteration_ms"]):
        row = replace(frame, note=_not_covered_note(curve, _place_notes(query, place, price)))
        return Series(architecture, place, price, (row,), training, curve)
    jumps = _jumps(curve)
    notes = (*_place_notes(query, place, price), *filter(None, [extras_note(training)]))
    rows = tuple(_scaled_rows(query, training, frame, curve, jumps, notes))
    return Series(
        architecture,
        place,
        price,
        _within_limits(query, frame, rows),
        training,
        curve,
        jumps=frozenset(jumps),
    )


def extras_note(training: Training) -> str:
    """What the totals of a row hold beyond its epochs; empty where that is nothing."""
    extras = training.extras()
    return f"totals include {', '.join(extras)}" if extras else ""


def resolve_precision(query: ForecastQuery, place: Place) -> Precision | None:
    """The precision that is meant on this device; ``None`` where the device does not have it."""
    spec = place.device.to_spec()
    if query.precision == DEFAULT_PRECISION:
        return spec.default_precision
    precision = Precision(query.precision)
    return precision if precision in spec.precisions else None


def _refusal(
    query: ForecastQuery, slug: str, architecture: Architecture | None, place: Place
) -> str:
    if architecture is None:
        return f"The layers of {slug} are not known at {query.image_size} px"
    has = " and ".join(precision.value for precision in place.device.to_spec().precisions)
    return f"{place.device.name} has no {query.precision}: it has {has}"


def _not_covered_note(curve: ForecastCurve, place_notes: Sequence[str]) -> str | None:
    """Why a whole curve has no time, and what is known all the same: where memory ends."""
    why = next((note for note in reversed(curve.points["notes"]) if note), "no time is known")
    largest = curve.largest_batch
    memory = f"memory would end at batch {largest}" if largest is not None else None
    return _sentence([why, memory, *place_notes])


def _jumps(curve: ForecastCurve) -> dict[int, int]:
    """Jumps between standard batch sizes: other people's questions must not change this answer."""
    times = dict(zip(curve.points["batch_sizes"], curve.points["iteration_ms"]))
    standard = [size for size in STANDARD_BATCH_SIZES if size in times]
    return find_jumps(standard, [times[size] for size in standard])


def _place_notes(query: ForecastQuery, place: Place, price: ChosenPrice | None) -> tuple[str, ...]:
    if place.machine is None:
        return ()
    notes = []
    if place.machine.availability == Machine.Availability.RETIRED:
        notes.append("this machine can no longer be rented")
    if price is None:
        notes.append(f"no {query.price} price is known for this machine in {query.region}")
    elif price.notional:
        notes.append("the price is notional: that of a comparable machine")
    elif price.first_day is None:
        notes.append("nobody knows how old the price is")
    return tuple(notes)


def _scaled_rows(
    query: ForecastQuery,
    training: Training,
    frame: ForecastRow,
    curve: ForecastCurve,
    jumps: Mapping[int, int],
    common_notes: tuple[str, ...],
) -> Iterator[ForecastRow]:
    points = curve.points
    index_of = {size: index for index, size in enumerate(points["batch_sizes"])}
    usd_per_second = training.usd_per_second(frame.usd_per_hour or 0.0)
    static = frame.to_json() | {
        "stack": curve.stack or None,
        "model_version": curve.model_version or None,
    }
    for size in _sizes_shown(query, curve):
        index = index_of[size]
        values = static | {
            "batch_size": size,
            "memory_mib": points["memory_mib"][index],
            "fits": points["fits"][index],
            "source": points["sources"][index],
            "measured_share": points["measured_share"][index],
        }
        notes = [points["notes"][index]]
        iteration_ms = points["iteration_ms"][index]
        if iteration_ms is not None:
            loader_ms = (
                1000 * size / query.loader_images_per_second
                if query.loader_images_per_second
                else 0.0
            )
            bound_by = "loader" if loader_ms > iteration_ms else points["bound_by"][index]
            iteration_ms = max(iteration_ms, loader_ms)
            epoch_seconds = math.ceil(query.examples / size) * iteration_ms / 1000
            total_seconds = training.total_seconds(epoch_seconds)
            values |= {
                "iteration_ms": iteration_ms,
                "iteration_ms_low": _at_least(points["low_ms"][index], loader_ms),
                "iteration_ms_high": _at_least(points["high_ms"][index], loader_ms),
                "images_per_second": 1000 * size / iteration_ms,
                "bound_by": bound_by,
                "epoch_seconds": epoch_seconds,
                "total_seconds": total_seconds,
                "total_cost_usd": (
                    total_seconds * usd_per_second if frame.usd_per_hour is not None else None
                ),
            }
            better = _size_before_jump(size, points["iteration_ms"], index_of, jumps)
            if better is not None and bound_by != "loader":
                notes.append(f"past a jump: batch size {better} is faster per example")
        values["note"] = _sentence([*notes, *common_notes])
        yield ForecastRow(**values)


def _size_before_jump(
    size: int, times_ms: Sequence[float], index_of: Mapping[int, int], jumps: Mapping[int, int]
) -> int | None:
    """The smaller batch size from whose jump ``size`` has not recovered yet, if there is one."""
    passed = [jump for jump in jumps if jump <= size]
    if not passed:
        return None
    start = max(passed)
    before = jumps[start]
    time_ms, before_ms = times_ms[index_of[size]], times_ms[index_of[before]]
    return before if is_slower_per_example(size, time_ms, before, before_ms) else None


def _sizes_shown(query: ForecastQuery, curve: ForecastCurve) -> Sequence[int]:
    if query.batch_sizes is not None:
        return query.batch_sizes
    fits: Mapping[int, str] = dict(zip(curve.points["batch_sizes"], curve.points["fits"]))
    largest = curve.largest_batch if curve.largest_batch is not None else BATCH_SIZE_LADDER[-1]
    fitting = [size for size in BATCH_SIZE_LADDER if fits[size] != "no" and size <= largest]
    # A CNN that fits nowhere still gets an answer, and the reason stands in the row.
    return fitting or BATCH_SIZE_LADDER[:1]


def _at_least(bound_ms: float | None, loader_ms: float) -> float | None:
    return None if bound_ms is None else max(bound_ms, loader_ms)


def _sentence(notes: Sequence[str | None]) -> str | None:
    parts = [note.strip().rstrip(".") for note in notes if note]
    if not parts:
        return None
    text = "; ".join(parts)
    return text[0].upper() + text[1:]


def _within_limits(
    query: ForecastQuery, frame: ForecastRow, rows: tuple[ForecastRow, ...]
) -> tuple[ForecastRow, ...]:
    """The rows within the query's limits; where none is, one row that says so."""
    limits = (
        (query.max_usd, "total_cost_usd", 1.0, "$"),
        (query.max_hours, "total_seconds", SECONDS_PER_HOUR, "hours"),
        (query.max_memory_gib, "memory_mib", 1024.0, "GiB"),
    )
    kept = rows
    for limit, key, unit, word in limits:
        if limit is None:
            continue
        known = [value for row in kept if (value := getattr(row, key)) is not None]
        kept = tuple(
            row
            for row in kept
            if (value := getattr(row, key)) is not None and value <= limit * unit
        )
        if not kept:
            return (replace(frame, note=_limit_note(word, limit, known, unit)),)
    return kept


def _limit_note(word: str, limit: float, known: Sequence[float], unit: float) -> str:
    def amount(value: float) -> str:
        text = f"{value:,.6f}".rstrip("0").rstrip(".")
        return f"${with_cents(text)}" if word == "$" else f"{text} {word}"

    if not known:
        return f"Nothing is known to stay within {amount(limit)}"
    least = min(known) / unit
    # Rounded up: who asks for as much gets an answer.
    step = 10.0 ** (math.floor(math.log10(least)) - 2)
    least = float(f"{math.ceil(least / step) * step:.3g}")
    return f"Nothing stays within {amount(limit)}: the least is {amount(least)}"
