"""Rows as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json

import pytest

from predictions.exports import to_csv_text, to_json_text
from predictions.forecast import make_forecast
from predictions.rows import ROW_KEYS, ForecastRow


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_u2_a_cell_that_a_spreadsheet_would_run_is_made_safe(start):
    row = ForecastRow("x", None, None, "fp32", 224, note=f"{start}cmd|' /C calc'!A0")
    (read,) = read_csv(to_csv_text([row]))
    assert read["note"] == f"'{start}cmd|' /C calc'!A0"


def test_numbers_keep_their_digits_and_unknown_values_are_empty(ask):
    forecast = make_forecast(
        ask(architecture="resnet50", machine="gcp-unpriced", batch_sizes="3,7")
    )
    read = read_csv(to_csv_text(forecast.rows))
    assert list(read[0]) == list(ROW_KEYS)
    assert [float(line["iteration_ms"]) for line in read] == [
        row.iteration_ms for row in forecast.rows
    ]
    assert {line["total_cost_usd"] for line in read} == {""}


def test_json_holds_the_query_and_the_rows(ask):
    forecast = make_forecast(ask(architecture="resnet50", machine="reference-cpu", batch_sizes="3"))
    assert json.loads(to_json_text(forecast)) == {
        "query": forecast.query.to_json(),
        "rows": [row.to_json() for row in forecast.rows],
    }
