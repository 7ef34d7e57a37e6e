"""Pages for what went wrong; they need no database, for it may be what is broken."""

from __future__ import annotations

import logging
import uuid

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

logger = logging.getLogger(__name__)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400: the request itself cannot be read."""
    context = {
        "title": "That request cannot be read",
        "text": "It holds too many values, or characters that no address may hold.",
    }
    return render(request, "error.html", context, status=400)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403: only staff may see it."""
    context = {"title": "Not for this account", "text": "This page is for the site's operators."}
    return render(request, "error.html", context, status=403)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404: no such page; an exception with a title and a text of its own says it better."""
    context = {
        "title": getattr(exception, "title", "No such page"),
        "text": getattr(
            exception,
            "text",
            "The address may be mistyped, or what it named is no longer there.",
        ),
    }
    return render(request, "error.html", context, status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    """500: our fault; the id stands in the log beside the traceback."""
    error_id = uuid.uuid4().hex[:12]
    logger.error("error page %s for %s", error_id, request.path)
    context = {
        "title": "Something broke on our side",
        "text": "The error is in the log. Try again; if it stays, tell the operator this id.",
        "error_id": error_id,
    }
    return render(request, "error.html", context, status=500)
