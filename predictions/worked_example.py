"""One forecast step by step, for the page that explains the words: its numbers are today's."""

from __future__ import annotations

import math
from dataclasses import dataclass

from predictions.display import (
    format_duration,
    format_exact_usd,
    format_number,
    format_number_range,
    format_usd,
    format_usd_range,
    relative_error,
)
from predictions.forecast import load_choices, make_forecast
from predictions.form import PRICE_LABELS, example_parameters
from predictions.query import DEFAULT_PRICE_KIND, ForecastQuery, parse_query
from predictions.rows import ForecastRow, Series

BATCH_SIZE = 32


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """A row of a forecast, its figures in words, and what lies between them.

    ``path`` leads to the whole forecast.
    """

    row: ForecastRow
    examples: int
    iterations: int
    epochs: int
    iteration_ms: str
    iteration_ms_range: str
    epoch: str
    total: str
    hourly: str
    price_label: str
    cost: str
    cost_range: str
    path: str


def make_worked_example() -> WorkedExample | None:
    """The example's CNN on its first machine at one batch size; ``None`` where none is answered."""
    choices = load_choices()
    parameters = example_parameters(choices)
    if not parameters:
        return None
    parameters["machine"] = parameters["machine"][:1]
    query = parse_query(parameters | {"batch_sizes": [str(BATCH_SIZE)]}, choices)
    (series,) = make_forecast(query).series
    if not series.answered or series.price is None:
        return None
    return _in_steps(query, series, f"/?{parse_query(parameters, choices).to_query_string()}")


def _in_steps(query: ForecastQuery, series: Series, path: str) -> WorkedExample:
    row = series.answered[0]
    low, high = row.iteration_ms_low, row.iteration_ms_high
    error = relative_error(row.iteration_ms or 0.0, low, high)
    cost = row.total_cost_usd or 0.0
    total_low, total_high = series.total_interval(row)
    return WorkedExample(
        row=row,
        examples=query.examples,
        iterations=math.ceil(query.examples / BATCH_SIZE),
        epochs=query.epochs,
        iteration_ms=format_number(row.iteration_ms, error),
        iteration_ms_range=format_number_range(low, high, error),
        epoch=format_duration(row.epoch_seconds, error),
        total=format_duration(row.total_seconds, error),
        hourly=format_exact_usd(row.usd_per_hour),
        price_label=PRICE_LABELS[row.price_kind or DEFAULT_PRICE_KIND],
        cost=format_usd(cost, error),
        cost_range=format_usd_range(cost * total_low, cost * total_high, error),
        path=path,
    )
