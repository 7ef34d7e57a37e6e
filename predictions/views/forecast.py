"""The forecast page and its rows as CSV and JSON, all from one query string."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from django_htmx.http import replace_url

from predictions.demand import counts_as_demand
from predictions.exports import to_csv_text, to_json_text
from predictions.forecast import load_choices, make_forecast
from predictions.forecast_page import page_context, table_context
from predictions.form import example_parameters, make_form
from predictions.page_cache import kept_for_visitors
from predictions.problems import problem_response
from predictions.query import OPTION_NAMES, Choices, ForecastQuery, QueryError, parse_query
from predictions.raw_parameters import raw_parameters
from predictions.table_view import TableView, parse_view


@require_safe
@counts_as_demand
@kept_for_visitors
def forecast_page(request: HttpRequest) -> HttpResponse:
    """The question, and its answer as cards, charts and a table; 400 beside the wrong field."""
    given = raw_parameters(request.GET)
    choices = load_choices(given.get("architecture", ()))
    # A link to the page may carry a stranger's parameter, or only how the page is looked at.
    is_example = not given.keys() & set(OPTION_NAMES)
    parameters = given | example_parameters(choices) if is_example else given
    if is_example and not choices.image_sizes:
        form = make_form(parameters, choices, {})
        return render(
            request,
            "predictions/forecast.html",
            {"form": form, "nothing_loaded": True, "page": "forecast"},
        )
    try:
        query, view = _parse(parameters, choices)
        forecast = make_forecast(query)
    except QueryError as error:
        return _refused_page(request, parameters, choices, error)
    context = page_context(forecast, view) | {
        "form": make_form(parameters, choices, {}, query),
        "is_example": is_example,
        "page": "forecast",
    }
    return render(request, "predictions/forecast.html", context)


@require_safe
@kept_for_visitors
def forecast_table(request: HttpRequest) -> HttpResponse:
    """The table alone, in another view; the page puts it in the place of the one it shows."""
    given = raw_parameters(request.GET)
    try:
        query, view = _parse(given, load_choices(given.get("architecture", ())))
        context = table_context(make_forecast(query), view)
    except QueryError as error:
        return problem_response(error)
    response = render(request, "predictions/_table_answer.html", context)
    return replace_url(response, f"/?{context['table'].link_query}")


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


def _parse(
    parameters: Mapping[str, list[str]], choices: Choices
) -> tuple[ForecastQuery, TableView]:
    """The query and how it is looked at; raises :class:`QueryError` for what is wrong in both."""
    errors: dict[str, str] = {}
    query, view = None, None
    try:
        query = parse_query(parameters, choices)
    except QueryError as error:
        errors |= error.errors
    try:
        view = parse_view(parameters)
    except QueryError as error:
        errors |= error.errors
    if query is None or view is None:
        raise QueryError(errors)
    return query, view


def _refused_page(
    request: HttpRequest,
    parameters: Mapping[str, list[str]],
    choices: Choices,
    error: QueryError,
) -> HttpResponse:
    form = make_form(parameters, choices, error.errors)
    context = {"form": form, "errors": error.errors, "page": "forecast"}
    return render(request, "predictions/forecast.html", context, status=400)
