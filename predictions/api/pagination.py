"""How the API's lists are cut into pages."""

from __future__ import annotations

from rest_framework.pagination import LimitOffsetPagination


class Pages(LimitOffsetPagination):
    """``?limit=`` and ``?offset=``; a page holds a thousand rows at most."""

    default_limit = 100
    max_limit = 1000
