"""Answers for what went wrong: a page for people, a problem document for programs."""

from __future__ import annotations

import logging
import sys
import uuid

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.log import log_response

from predictions.problems import NO_SUCH_ENDPOINT, asks_for_documents, problem_of_status

logger = logging.getLogger(__name__)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400: the request itself cannot be read."""
    text = "It holds too many values, or characters that no address may hold."
    if asks_for_documents(request):
        return problem_of_status(400, f"The request cannot be read. {text}")
    context = {"title": "That request cannot be read", "text": text}
    return render(request, "error.html", context, status=400)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403: only staff may see it."""
    text = "This page is for the site's operators."
    if asks_for_documents(request):
        return problem_of_status(403, text)
    context = {"title": "Not for this account", "text": text}
    return render(request, "error.html", context, status=403)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403: a form without the token of this site's own page; Django logs the ``reason``."""
    if asks_for_documents(request):
        return problem_of_status(
            403,
            "The request has no valid CSRF token, which only this site's own forms carry; "
            "/api/docs/ lists what programs can ask for.",
        )
    text = (
        "Nothing was changed. Go back, load the page again and send it once more; your browser has "
        "to accept this site's cookies. If it stays, the operator finds the reason in the log."
    )
    context = {"title": "That form could not be trusted", "text": text}
    return render(request, "error.html", context, status=403)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404: no such page; an exception with a title and a text of its own says it better."""
    if asks_for_documents(request):
        return problem_of_status(404, NO_SUCH_ENDPOINT)
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
    """500: our fault; the id stands in the log, in the line above the traceback."""
    error_id = uuid.uuid4().hex[:12]
    response = _server_error(request, error_id)
    # Django logs a response once: without this its own line would have no id.
    log_response(
        "Internal Server Error, id %s: %s",
        error_id,
        request.path,
        response=response,
        request=request,
        exception=sys.exc_info()[1],
    )
    return response


def _server_error(request: HttpRequest, error_id: str) -> HttpResponse:
    title = "Something broke on our side"
    text = "The error is in the log. Try again; if it stays, tell the operator this id:"
    if asks_for_documents(request):
        return problem_of_status(500, f"{title}. {text} {error_id}", error_id=error_id)
    context = {"title": title, "text": text, "error_id": error_id}
    try:
        # Without the request: who is signed in stands in the database, which may be broken.
        return HttpResponse(render_to_string("error.html", context), status=500)
    except Exception:
        logger.exception("the error page of %s is broken too", error_id)
        plain = f"{title}. {text} {error_id}\n"
        return HttpResponse(plain, status=500, content_type="text/plain; charset=utf-8")
