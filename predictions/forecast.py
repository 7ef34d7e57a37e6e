"""From a query to forecast rows: the curves scaled to epochs, totals and cost.

``epoch seconds = ceil(examples / batch size) * iteration``, ``total = epochs * epoch``,
``cost = hours * price of the machine``; with an input pipeline of r images per second an
iteration takes ``max(iteration, batch size / r)`` (docs/method.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from benchmarking.catalogue.selectors import newest_prices
from benchmarking.models import Architecture, Device, Machine, Price
from benchmarking.specs import Precision
from predictions.advice import find_jumps
from predictions.curves import STANDARD_BATCH_SIZES, CurveRequest, Place, curves_for
from predictions.models import ForecastCurve, OwnNetwork
from predictions.prices import ChosenPrice
from predictions.query import (
    BATCH_SIZE_LADDER,
    DEFAULT_PRECISION,
    MAX_ARCHITECTURES,
    Choices,
    ForecastQuery,
    QueryError,
)
from predictions.uploads.tokens import OWN_PREFIX

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class ForecastRow:
    """One line of an answer; the same keys, in this order, wherever it is shown.

    ``iteration_ms_low`` and ``iteration_ms_high`` bound the 80 % interval; the other figures have
    the same relative interval. ``note`` is one sentence or ``None``.
    """

    architecture: str
    machine: str | None
    device: str | None
    precision: str
    image_size: int
    batch_size: int | None = None
    iteration_ms: float | None = None
    iteration_ms_low: float | None = None
    iteration_ms_high: float | None = None
    images_per_second: float | None = None
    bound_by: str | None = None
    epoch_seconds: float | None = None
    total_seconds: float | None = None
    usd_per_hour: float | None = None
    price_kind: str | None = None
    price_region: str | None = None
    price_as_of: str | None = None
    total_cost_usd: float | None = None
    memory_mib: float | None = None
    fits: str = "unknown"
    source: str | None = None
    measured_share: float | None = None
    stack: str | None = None
    model_version: str | None = None
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The row as a mapping in the order of :data:`ROW_KEYS`."""
        return asdict(self)


ROW_KEYS = tuple(field.name for field in fields(ForecastRow))


@dataclass(frozen=True, slots=True)
class Series:
    """The rows of one CNN in one place, ascending in batch size, and what belongs to them all.

    ``largest_batch`` is the largest batch size that fits, ``None`` where nobody knows.
    ``jumps`` are the batch sizes just past a jump of the time per example.
    """

    architecture: Architecture | None
    place: Place
    price: ChosenPrice | None
    rows: tuple[ForecastRow, ...]
    largest_batch: int | None = None
    jumps: frozenset[int] = frozenset()

    @property
    def label(self) -> str:
        """Machine (or device) as people read it."""
        return self.place.machine.slug if self.place.machine else self.place.device.slug

    @property
    def answered(self) -> tuple[ForecastRow, ...]:
        """The rows that hold a time."""
        return tuple(row for row in self.rows if row.iteration_ms is not None)

    def is_safe(self, row: ForecastRow) -> bool:
        """Whether a row's batch fits as far as anybody knows.

        Beyond the largest batch that surely fits, "unknown" is a risk and no recommendation.
        """
        if row.fits == "unknown" and self.largest_batch is not None:
            return (row.batch_size or 0) <= self.largest_batch
        return row.fits != "no"


@dataclass(frozen=True, slots=True)
class Forecast:
    """The whole answer to a query."""

    query: ForecastQuery
    series: tuple[Series, ...]

    @property
    def rows(self) -> list[ForecastRow]:
        """Every row: by CNN, then by place, each in the order asked, then by batch size."""
        return [row for series in self.series for row in series.rows]

    def to_json(self) -> dict[str, Any]:
        """The answer as the JSON page, the API and the command line give it."""
        return {"query": self.query.to_json(), "rows": [row.to_json() for row in self.rows]}


def load_choices(named: Iterable[str] = ()) -> Choices:
    """The names that a query may use just now.

    ``named`` are the CNNs that it does use: a private network counts only where it is named.
    """
    image_sizes: dict[str, list[int]] = {}
    for slug, size in (
        Architecture.objects.public()
        .order_by("slug", "image_size")
        .values_list("slug", "image_size")
    ):
        image_sizes.setdefault(slug, []).append(size)
    return Choices(
        image_sizes={slug: tuple(sizes) for slug, sizes in image_sizes.items()},
        own_image_sizes=_own_image_sizes(named),
        machines=tuple(Machine.objects.values_list("slug", flat=True)),
        devices=tuple(Device.objects.values_list("slug", flat=True)),
        regions=tuple(Price.objects.order_by().values_list("region", flat=True).distinct()),
    )


def _own_image_sizes(named: Iterable[str]) -> dict[str, tuple[int, ...]]:
    own = {slug for slug in named if slug.startswith(OWN_PREFIX) and slug.isprintable()}
    # Nobody compares more of them than a query may name.
    if not 0 < len(own) <= MAX_ARCHITECTURES:
        return {}
    found = OwnNetwork.objects.current().filter(architecture__slug__in=own)
    return {
        slug: (size,)
        for slug, size in found.order_by().values_list(
            "architecture__slug", "architecture__image_size"
        )
    }


def make_forecast(query: ForecastQuery) -> Forecast:
    """Answer ``query``: one series for each CNN in each place.

    A place that cannot do what is asked gets one row without figures and a note. The number of
    database queries does not depend on how much is asked, as long as the curves are stored.

    Raises :class:`QueryError` where a name has gone since the query was parsed.
    """
    architectures = _load_architectures(query)
    places, prices = _load_places(query)
    requests = {
        (slug, place.key): CurveRequest(architecture, place, precision, query.optimizer)
        for slug, architecture in architectures.items()
        for place in places
        if architecture is not None and (precision := _resolve_precision(query, place)) is not None
    }
    curves = curves_for(list(requests.values()), query.batch_sizes)
    return Forecast(
        query=query,
        series=tuple(
            _make_series(
                query,
                slug,
                architectures[slug],
                place,
                prices.get(place.key),
                curves[requests[slug, place.key].key] if (slug, place.key) in requests else None,
            )
            for slug in query.architectures
            for place in places
        ),
    )


def _load_architectures(query: ForecastQuery) -> dict[str, Architecture | None]:
    """Each CNN at the size asked for; ``None`` where it was not traced at that size."""
    traced: dict[str, dict[int, Architecture]] = {slug: {} for slug in query.architectures}
    # The operations are long, and only a curve that is computed needs them.
    for architecture in Architecture.objects.filter(slug__in=query.architectures).defer(
        "operations"
    ):
        traced[architecture.slug][architecture.image_size] = architecture
    gone = [slug for slug, sizes in traced.items() if not sizes]
    if gone:
        raise QueryError({"architecture": f"Unknown CNN '{gone[0]}'."})
    return {
        slug: sizes.get(query.image_size_of(slug, tuple(sizes))) for slug, sizes in traced.items()
    }


def _load_places(query: ForecastQuery) -> tuple[list[Place], dict[str, ChosenPrice]]:
    machines = {
        machine.slug: machine
        for machine in Machine.objects.filter(slug__in=query.machines).select_related("device")
    }
    devices = {device.slug: device for device in Device.objects.filter(slug__in=query.devices)}
    gone = [slug for slug in query.machines if slug not in machines]
    gone += [slug for slug in query.devices if slug not in devices]
    if gone:
        raise QueryError({"machine": f"Unknown machine or device '{gone[0]}'."})
    places = [Place(machines[slug].device, machines[slug]) for slug in query.machines]
    places += [Place(devices[slug]) for slug in query.devices]
    return places, _load_prices(query, list(machines.values()))


def _load_prices(query: ForecastQuery, machines: Sequence[Machine]) -> dict[str, ChosenPrice]:
    newest = newest_prices([machine.pk for machine in machines], query.price, query.region)
    return {
        machine.slug: ChosenPrice.from_price(newest[machine.pk])
        for machine in machines
        if machine.pk in newest
    }


def _resolve_precision(query: ForecastQuery, place: Place) -> Precision | None:
    """The precision that is meant on this device; ``None`` where the device does not have it."""
    spec = place.device.to_spec()
    if query.precision == DEFAULT_PRECISION:
        return spec.default_precision
    precision = Precision(query.precision)
    return precision if precision in spec.precisions else None


def _make_series(
    query: ForecastQuery,
    slug: str,
    architecture: Architecture | None,
    place: Place,
    price: ChosenPrice | None,
    curve: ForecastCurve | None,
) -> Series:
    frame = ForecastRow(
        architecture=slug,
        machine=place.machine.slug if place.machine else None,
        device=place.device.slug,
        precision=curve.precision if curve else query.precision,
        image_size=architecture.image_size if architecture else query.image_size_of(slug),
        usd_per_hour=float(price.usd_per_hour) if price else None,
        price_kind=price.kind if price else None,
        price_region=price.region if price else None,
        price_as_of=price.as_of if price else None,
    )
    if curve is None:
        note = _refusal(query, slug, architecture, place)
        return Series(architecture, place, price, (replace(frame, note=note),))
    if not any(curve.points["iteration_ms"]):
        row = replace(frame, note=_not_covered_note(curve, _place_notes(query, place, price)))
        return Series(architecture, place, price, (row,), largest_batch=curve.largest_batch)
    jumps = _jumps(curve)
    rows = tuple(_scaled_rows(query, frame, curve, jumps, _place_notes(query, place, price)))
    return Series(
        architecture,
        place,
        price,
        _within_limits(query, frame, rows),
        largest_batch=curve.largest_batch,
        jumps=frozenset(jumps),
    )


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


def _jumps(curve: ForecastCurve) -> set[int]:
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
    frame: ForecastRow,
    curve: ForecastCurve,
    jumps: set[int],
    place_notes: tuple[str, ...],
) -> Iterator[ForecastRow]:
    points = curve.points
    index_of = {size: index for index, size in enumerate(points["batch_sizes"])}
    usd_per_second = (frame.usd_per_hour or 0.0) / SECONDS_PER_HOUR
    static = asdict(frame) | {
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
            total_seconds = query.epochs * epoch_seconds
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
            if size in jumps and bound_by != "loader":
                notes.append("just past a jump: a slightly smaller batch is faster per example")
        values["note"] = _sentence([*notes, *place_notes])
        yield ForecastRow(**values)


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
        return f"${value:,.4g}" if word == "$" else f"{value:,.4g} {word}"

    if not known:
        return f"Nothing is known to stay within {amount(limit)}"
    return f"Nothing stays within {amount(limit)}: the least is {amount(min(known) / unit)}"
