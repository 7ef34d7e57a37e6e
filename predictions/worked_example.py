"""One forecast step by step, for the page that explains the words: its numbers are today's."""

from __future__ import annotations

import math
from dataclasses import dataclass

from predictions.display import format_exact_usd
from predictions.forecast import load_choices, make_forecast
from predictions.form import PRICE_LABELS, example_parameters
from predictions.query import parse_query
from predictions.row_texts import RowTexts, texts_of
from predictions.rows import ForecastRow

BATCH_SIZE = 32


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """A row of a forecast, its figures in words, and what lies between them.

    ``path`` leads to the whole forecast.
    """

    row: ForecastRow
    texts: RowTexts
    examples: int
    iterations: int
    epochs: int
    hourly: str
    price_label: str
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
    row = series.answered[0]
    return WorkedExample(
        row=row,
        texts=texts_of(row, series),
        examples=query.examples,
        iterations=math.ceil(query.examples / BATCH_SIZE),
        epochs=query.epochs,
        hourly=format_exact_usd(row.usd_per_hour),
        price_label=PRICE_LABELS[series.price.kind],
        path=f"/?{parse_query(parameters, choices).to_query_string()}",
    )
