"""The query string or form of a request as the readers of pages and API take it."""

from __future__ import annotations

from django.http import QueryDict


def raw_parameters(parameters: QueryDict) -> dict[str, list[str]]:
    """Every given text by its name."""
    return {name: parameters.getlist(name) for name in parameters}
