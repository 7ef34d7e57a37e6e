"""Errors for programs, as problem details (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

from predictions.query import QueryError

CONTENT_TYPE = "application/problem+json"
NO_SUCH_ENDPOINT = "There is no such endpoint; /api/docs/ lists them all."
_PATHS_OF_PROGRAMS = ("/api/", "/forecast.json", "/forecast.csv")


def asks_for_documents(request: HttpRequest) -> bool:
    """Whether a program asks, which an error page would not help."""
    return request.path.startswith(_PATHS_OF_PROGRAMS)


def problem_document(error: QueryError) -> dict[str, Any]:
    """What is wrong with the query, a sentence for each field."""
    return {
        "type": "about:blank",
        "title": "The query cannot be answered",
        "status": 400,
        "detail": str(error),
        "errors": [
            {"parameter": name, "detail": sentence} for name, sentence in error.errors.items()
        ],
    }


def problem_response(error: QueryError) -> HttpResponse:
    """The problem document as a response with status 400."""
    return JsonResponse(problem_document(error), status=400, content_type=CONTENT_TYPE)


def problem_of_status(status: int, detail: str, **members: str) -> HttpResponse:
    """A problem that names no parameter; ``members`` stand in the document beside the rest."""
    document = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "errors": [],
        **members,
    }
    return JsonResponse(document, status=status, content_type=CONTENT_TYPE)
