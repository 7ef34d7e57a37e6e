"""How many files one address may send: each costs seconds of a processor."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle
from rest_framework.views import APIView


class UploadThrottle(SimpleRateThrottle):
    """Counts files by the sender's address, signed in or not.

    The counts lie in Django's cache, which by default each web process has for itself.
    """

    scope = "uploads"
    rate = "30/hour"

    def get_cache_key(self, request: Request, view: APIView | None) -> str | None:
        """Only what sends a file counts."""
        if request.method != "POST":
            return None
        return f"throttle_uploads_{self.get_ident(request)}"
