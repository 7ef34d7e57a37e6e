"""What a forecast consists of: rows, the series of rows that belong together, and all of them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from benchmarking.models import Architecture
from predictions.curves import Place
from predictions.models import ForecastCurve
from predictions.prices import ChosenPrice
from predictions.query import ForecastQuery
from predictions.totals import Training


@dataclass(frozen=True, slots=True)
class ForecastRow:
    """One line of an answer; the same keys, in this order, wherever it is shown.

    ``iteration_ms_low`` and ``iteration_ms_high`` bound the 80 % interval; an epoch has the same
    relative interval, totals that of :meth:`Series.total_interval`. ``note`` is one sentence or
    ``None``.
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
        return {key: getattr(self, key) for key in ROW_KEYS}


ROW_KEYS = tuple(one.name for one in fields(ForecastRow))


@dataclass(frozen=True, slots=True)
class Series:
    """The rows of one CNN in one place, ascending in batch size, and what belongs to them all.

    ``curve`` is what they were scaled from, ``None`` where there is none. ``jumps`` are the batch
    sizes at which the time per example jumps up.
    """

    architecture: Architecture | None
    place: Place
    price: ChosenPrice | None
    rows: tuple[ForecastRow, ...]
    training: Training
    curve: ForecastCurve | None = None
    jumps: frozenset[int] = frozenset()
    answered: tuple[ForecastRow, ...] = field(init=False, repr=False, compare=False)
    """The rows that hold a time; found once, because cards, charts and table all walk them."""

    def __post_init__(self) -> None:
        answered = tuple(row for row in self.rows if row.iteration_ms is not None)
        object.__setattr__(self, "answered", answered)

    @property
    def label(self) -> str:
        """Machine (or device) as people read it."""
        return self.place.machine.slug if self.place.machine else self.place.device.slug

    @property
    def key(self) -> tuple[str, str]:
        """CNN and place, which tell the series of a forecast apart."""
        return (self.rows[0].architecture, self.place.key)

    @property
    def largest_batch(self) -> int | None:
        """The largest batch size that fits; ``None`` where nobody knows."""
        return self.curve.largest_batch if self.curve else None

    def total_interval(self, row: ForecastRow) -> tuple[float, float]:
        """Low and high end of the totals, as multiples of them; the row must hold a time.

        The iterations are uncertain, the minutes to start a machine are what was asked for.
        """
        assert row.iteration_ms and row.epoch_seconds is not None and row.total_seconds
        low = (row.iteration_ms_low or row.iteration_ms) / row.iteration_ms
        high = (row.iteration_ms_high or row.iteration_ms) / row.iteration_ms
        if not self.training.start_minutes:
            # Everything grows with the iterations, and this is asked for every row several times.
            return low, high
        return (
            self.training.total_seconds(row.epoch_seconds * low) / row.total_seconds,
            self.training.total_seconds(row.epoch_seconds * high) / row.total_seconds,
        )

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
