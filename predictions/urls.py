"""Addresses of the pages and of the API."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from predictions.views.forecast import forecast_csv, forecast_json, forecast_page

urlpatterns: list[URLPattern | URLResolver] = [
    path("", forecast_page, name="forecast"),
    path("forecast.csv", forecast_csv, name="forecast-csv"),
    path("forecast.json", forecast_json, name="forecast-json"),
]
