"""Forecast rows as text for other programs: CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

from predictions.rows import ROW_KEYS, Forecast, ForecastRow

# A spreadsheet would run a cell that begins with one of these as a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def to_json_text(forecast: Forecast, indent: int | None = None) -> str:
    """``{"query": ..., "rows": [...]}`` with the keys of a forecast row."""
    return json.dumps(forecast.to_json(), indent=indent, allow_nan=False)


def to_csv_text(rows: Iterable[ForecastRow]) -> str:
    """One header line and one line per row; unknown values are empty, numbers keep all digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(ROW_KEYS)
    for row in rows:
        writer.writerow([_cell(getattr(row, key)) for key in ROW_KEYS])
    return out.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(FORMULA_STARTS) else text
