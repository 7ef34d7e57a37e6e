"""How many files one address may send: each costs seconds of a processor."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.views import APIView

from predictions.throttling import SharedThrottle


class UploadThrottle(SharedThrottle):
    """Counts files by the sender's address, signed in or not."""

    scope = "uploads"
    rate = "30/hour"

    def get_cache_key(self, request: Request, view: APIView | None) -> str | None:
        """Only what sends a file counts."""
        if request.method != "POST":
            return None
        return f"throttle_uploads_{self.get_ident(request)}"
