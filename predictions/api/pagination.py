"""How the API's lists are cut into pages."""

from __future__ import annotations

from rest_framework.exceptions import ValidationError
from rest_framework.pagination import LimitOffsetPagination
from rest_framework.request import Request

from benchmarking.suggestions import quoted

_DIGITS_READ = 18


class Pages(LimitOffsetPagination):
    """``?limit=`` and ``?offset=``; a page holds a thousand rows at most."""

    default_limit = 100
    max_limit = 1000

    def get_limit(self, request: Request) -> int:
        """Rows of a page; more than there may be are as many as there may be."""
        limit = _whole_number(request, self.limit_query_param, self.default_limit, smallest=1)
        return min(limit, self.max_limit)

    def get_offset(self, request: Request) -> int:
        """Rows before the page."""
        return _whole_number(request, self.offset_query_param, 0, smallest=0)


def _whole_number(request: Request, name: str, default: int, smallest: int) -> int:
    text = request.query_params.get(name, "").strip()
    if not text:
        return default
    # No list is longer than the number that the first digits make.
    number = int(text[:_DIGITS_READ]) if text.isascii() and text.isdigit() else -1
    if number < smallest:
        sentence = f"{name} must be a whole number from {smallest} on (got {quoted(text)})."
        raise ValidationError({name: sentence})
    return number
