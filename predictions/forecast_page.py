"""What the forecast page shows of one forecast, for its template."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from predictions.assumptions import make_assumptions, stale_price_sentence
from predictions.cards import make_answers
from predictions.charts import make_charts, make_hover_texts, make_legend
from predictions.joint_cards import make_joint_answer
from predictions.measuring import count_layers
from predictions.row_texts import texts_of_series
from predictions.rows import Forecast
from predictions.table_view import TableView
from predictions.tables import make_table


def page_context(forecast: Forecast, view: TableView) -> dict[str, Any]:
    """Cards, charts, table and assumptions."""
    answers = make_answers(forecast)
    charts = make_charts(forecast, answers)
    texts = texts_of_series(forecast.series, view)
    return {
        "forecast": forecast,
        "answers": answers,
        "together": make_joint_answer(answers),
        "charts": charts,
        "legend": make_legend(forecast),
        "figures": {
            "charts": {chart.slug: chart.figure for chart in charts},
            "hover": make_hover_texts(forecast, texts, view),
        },
        "table": make_table(forecast, texts, answers, count_layers(forecast.series), view),
        "assumptions": make_assumptions(forecast),
        "stale_prices": stale_price_sentence(forecast, timezone.now().date()),
    }


def table_context(forecast: Forecast, view: TableView) -> dict[str, Any]:
    """The table alone, for a page that shows the rest already."""
    texts = texts_of_series(forecast.series, view)
    layers = count_layers(forecast.series)
    table = make_table(forecast, texts, make_answers(forecast), layers, view)
    return {"forecast": forecast, "table": table, "is_fragment": True}
