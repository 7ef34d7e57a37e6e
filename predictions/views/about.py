"""Pages that explain: what the words mean, how accurate forecasts are, how they are made."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import conditional_page, require_safe

from predictions.accuracy import group_lines, machine_accuracies
from predictions.accuracy_charts import make_accuracy_charts, make_accuracy_hover_texts
from predictions.public_accuracy import public_accuracy
from predictions.worked_example import make_worked_example
from regression.sources import Source


@require_safe
@conditional_page
def accuracy_page(request: HttpRequest) -> HttpResponse:
    """What each source of a forecast means, and how well it does on unseen CNNs."""
    machines = machine_accuracies()
    charts = make_accuracy_charts(machines)
    context = {
        "page": "accuracy",
        "machines": machines,
        "measured_groups": group_lines(machines, Source.MEASURED),
        "regressed_groups": group_lines(machines, Source.REGRESSED),
        "interpolated_groups": group_lines(machines, Source.INTERPOLATED),
        "estimated_groups": group_lines(machines, Source.ESTIMATED),
        "public": public_accuracy(),
        "charts": charts,
        "figures": {
            "charts": {chart.slug: chart.figure for chart in charts},
            "hover": make_accuracy_hover_texts(machines),
        },
    }
    return render(request, "predictions/accuracy.html", context)


@require_safe
@conditional_page
def about_page(request: HttpRequest) -> HttpResponse:
    """What the site answers, and its words, for somebody who is new to them."""
    context = {"page": "about", "example": make_worked_example()}
    return render(request, "predictions/about.html", context)


@require_safe
@conditional_page
def method_page(request: HttpRequest) -> HttpResponse:
    """The method in plain words."""
    return render(request, "predictions/method.html", {"page": "method"})
