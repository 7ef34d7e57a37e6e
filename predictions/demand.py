"""Telling the floor below what visitors ask for, so that it may be measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from rest_framework.throttling import AnonRateThrottle

from benchmarking.jobs.demand import note_requests

View = Callable[..., HttpResponse]


def counts_as_demand(view: View) -> View:
    """Note the CNNs and machines in the query string of what ``view`` answers.

    It goes outside of what keeps answers, or a question that many ask would count once.
    """

    @wraps(view)
    def noting(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = view(request, *args, **kwargs)
        if response.status_code in (200, 304):
            note_requests(
                request.GET.getlist("machine"),
                request.GET.getlist("architecture"),
                visitor=AnonRateThrottle().get_ident(request),
            )
        return response

    return noting
