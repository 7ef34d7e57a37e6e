"""Errors for programs, as problem details (RFC 9457)."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, JsonResponse

from predictions.query import QueryError

CONTENT_TYPE = "application/problem+json"


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
