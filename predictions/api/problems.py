"""What every endpoint shares: errors as problem documents, pages, filters, 304 where nothing
changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework.exceptions import NotFound, Throttled
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView, exception_handler

from predictions.problems import CONTENT_TYPE, NO_SUCH_ENDPOINT, problem_document
from predictions.query import QueryError
from predictions.throttling import SharedAnonThrottle


def problem_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """Every refusal as a problem document; an error that nobody foresaw stays a 500."""
    if isinstance(error, QueryError):
        return Response(problem_document(error), status=400, content_type=CONTENT_TYPE)
    response = exception_handler(error, context)
    if response is not None:
        sentences = _problem_sentences(error)
        response.data = {
            "type": "about:blank",
            "title": response.status_text,
            "status": response.status_code,
            "detail": " ".join(sentences.values()) or str(getattr(error, "detail", error)),
            "errors": [
                {"parameter": name, "detail": sentence} for name, sentence in sentences.items()
            ],
        }
        response.content_type = CONTENT_TYPE
    return response


def _problem_sentences(error: Exception) -> dict[str, str]:
    """A sentence per parameter of a refusal by REST framework; empty where it names none."""
    detail = getattr(error, "detail", None)
    if not isinstance(detail, dict):
        return {}
    return {
        name: " ".join(map(str, texts)) if isinstance(texts, list) else str(texts)
        for name, texts in detail.items()
    }


class ProblemDetails:
    """A view whose errors are problem documents."""

    def get_exception_handler(self) -> Callable[..., Response | None]:
        """Used by REST framework for whatever a view raises."""
        return problem_handler

    def throttled(self, request: Request, wait: float | None) -> None:
        """Say how many requests are answered; ``Retry-After`` says when the next one is."""
        raise Throttled(
            wait, f"This address has sent too many requests: {SharedAnonThrottle().rate} at most."
        )


class NoSuchEndpoint(ProblemDetails, APIView):
    """Whatever else is asked for below ``/api/v1/``."""

    schema = None
    permission_classes = (AllowAny,)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse whatever the method."""
        super().initial(request, *args, **kwargs)
        raise NotFound(NO_SUCH_ENDPOINT)
