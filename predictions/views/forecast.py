"""The forecast page and its rows as CSV and JSON, all from one query string."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from predictions.assumptions import make_assumptions, stale_price_sentence
from predictions.cards import make_answers
from predictions.charts import make_charts, make_hover_texts, make_legend
from predictions.exports import to_csv_text, to_json_text
from predictions.forecast import load_choices, make_forecast
from predictions.form import example_parameters, make_form
from predictions.joint_cards import make_joint_answer
from predictions.page_cache import kept_for_visitors
from predictions.problems import problem_response
from predictions.query import Choices, ForecastQuery, QueryError, parse_query
from predictions.row_texts import texts_of_series
from predictions.rows import Forecast
from predictions.tables import make_best_rows


@require_safe
@kept_for_visitors
def forecast_page(request: HttpRequest) -> HttpResponse:
    """The question, and its answer as cards, charts and a table; 400 beside the wrong field."""
    given = raw_parameters(request.GET)
    choices = load_choices(given.get("architecture", ()))
    parameters = given or example_parameters(choices)
    if not parameters:
        form = make_form(parameters, choices, {})
        return render(
            request,
            "predictions/forecast.html",
            {"form": form, "nothing_loaded": True, "page": "forecast"},
        )
    try:
        query = parse_query(parameters, choices)
        forecast = make_forecast(query)
    except QueryError as error:
        return _refused_page(request, parameters, choices, error)
    context = _answer_context(forecast) | {
        "form": make_form(parameters, choices, {}, query),
        "is_example": not given,
        "page": "forecast",
    }
    return render(request, "predictions/forecast.html", context)


@require_safe
@kept_for_visitors
def forecast_csv(request: HttpRequest) -> HttpResponse:
    """The rows as CSV, the same as on the page."""
    try:
        forecast = make_forecast(_query_of(request))
    except QueryError as error:
        return problem_response(error)
    return HttpResponse(
        to_csv_text(forecast.rows),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="epochcast-forecast.csv"'},
    )


@require_safe
@kept_for_visitors
def forecast_json(request: HttpRequest) -> HttpResponse:
    """``{"query": ..., "rows": [...]}``, the same as the API and the command line give."""
    try:
        forecast = make_forecast(_query_of(request))
    except QueryError as error:
        return problem_response(error)
    return HttpResponse(to_json_text(forecast), content_type="application/json")


def _query_of(request: HttpRequest) -> ForecastQuery:
    given = raw_parameters(request.GET)
    return parse_query(given, load_choices(given.get("architecture", ())))


def raw_parameters(parameters: QueryDict) -> dict[str, list[str]]:
    """Every given text by its name."""
    return {name: parameters.getlist(name) for name in parameters}


def _refused_page(
    request: HttpRequest,
    parameters: Mapping[str, list[str]],
    choices: Choices,
    error: QueryError,
) -> HttpResponse:
    form = make_form(parameters, choices, error.errors)
    context = {"form": form, "errors": error.errors, "page": "forecast"}
    return render(request, "predictions/forecast.html", context, status=400)


def _answer_context(forecast: Forecast) -> dict[str, Any]:
    answers = make_answers(forecast)
    charts = make_charts(forecast, answers)
    texts = texts_of_series(forecast.series)
    return {
        "forecast": forecast,
        "answers": answers,
        "together": make_joint_answer(forecast),
        "charts": charts,
        "legend": make_legend(forecast),
        "figures": {
            "charts": {chart.slug: chart.figure for chart in charts},
            "hover": make_hover_texts(forecast, texts),
        },
        "best_rows": make_best_rows(forecast.series, texts, answers),
        "assumptions": make_assumptions(forecast),
        "stale_prices": stale_price_sentence(forecast, timezone.now().date()),
        "query_string": forecast.query.to_query_string(),
    }
