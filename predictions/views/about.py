"""Pages that explain: how accurate the forecasts are, and how they are made."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import conditional_page, require_safe

from predictions.accuracy import accuracy_lines


@require_safe
@conditional_page
def accuracy_page(request: HttpRequest) -> HttpResponse:
    """What each source of a forecast means, and how well it does on unseen CNNs."""
    context = {"page": "accuracy", "lines": accuracy_lines()}
    return render(request, "predictions/accuracy.html", context)


@require_safe
@conditional_page
def method_page(request: HttpRequest) -> HttpResponse:
    """The method in plain words."""
    return render(request, "predictions/method.html", {"page": "method"})
