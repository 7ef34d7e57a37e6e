"""Addresses of the pages and of the API."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from predictions import converters  # noqa: F401 - registers "name"
from predictions.views.about import about_page, accuracy_page, method_page
from predictions.views.catalogue import (
    architecture_list,
    architecture_page,
    machine_list,
    machine_page,
)
from predictions.views.forecast import (
    forecast_csv,
    forecast_json,
    forecast_page,
    forecast_table,
)
from predictions.views.job_plans import new_job
from predictions.views.jobs import (
    cancel,
    job_list,
    job_page,
    job_progress_part,
    retry,
    spending_page,
)

urlpatterns: list[URLPattern | URLResolver] = [
    path("", forecast_page, name="forecast"),
    path("forecast/table/", forecast_table, name="forecast-table"),
    path("forecast.csv", forecast_csv, name="forecast-csv"),
    path("forecast.json", forecast_json, name="forecast-json"),
    path("machines/", machine_list, name="machines"),
    path("machines/<name:slug>/", machine_page, name="machine"),
    path("architectures/", architecture_list, name="architectures"),
    path("", include("predictions.uploads.urls")),
    path("architectures/<name:slug>/<int:image_size>/", architecture_page, name="architecture"),
    path("about/", about_page, name="about"),
    path("accuracy/", accuracy_page, name="accuracy"),
    path("method/", method_page, name="method"),
    path("jobs/", job_list, name="jobs"),
    path("jobs/new/", new_job, name="job-new"),
    path("jobs/spending/", spending_page, name="job-spending"),
    path("jobs/<uuid:pk>/", job_page, name="job"),
    path("jobs/<uuid:pk>/progress/", job_progress_part, name="job-progress"),
    path("jobs/<uuid:pk>/cancel/", cancel, name="job-cancel"),
    path("jobs/<uuid:pk>/retry/", retry, name="job-retry"),
    path("api/v1/", include("predictions.api.urls")),
]
