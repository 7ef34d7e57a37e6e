"""Answers kept for visitors who are not signed in, until anything in the database changes.

Rendering a forecast takes tens of milliseconds and most visitors ask what others have asked. What
belongs to somebody is never kept: requests with a session, forms' tokens, private networks.
"""

from __future__ import annotations

import gzip
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib.messages.storage.cookie import CookieStorage
from django.http import HttpRequest, HttpResponse
from django.middleware.gzip import re_accepts_gzip
from django.utils import timezone
from django.utils.cache import get_conditional_response, patch_vary_headers, set_response_etag
from django.views.decorators.http import conditional_page

from predictions.data_version import data_version
from predictions.uploads.tokens import OWN_PREFIX

MOST_KEPT_BYTES = 32 * 2**20
"""Compressed answers of one thread, with their addresses; the longest unasked for goes first."""

_KNOWN_VARIATIONS = frozenset({"accept-encoding", "cookie", "hx-request"})

# The next level takes half as long again to save another 1.5 % of a large page.
GZIP_LEVEL = 5

View = Callable[..., HttpResponse]


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """A complete answer, its body compressed once; ``etag`` is that of the body as it was."""

    compressed: bytes
    headers: dict[str, str]
    etag: str

    @classmethod
    def of(cls, response: HttpResponse) -> KeptAnswer:
        """Keep what ``response`` says."""
        set_response_etag(response)
        headers = dict(response.headers)
        etag = headers.pop("ETag")
        # Nothing in it is secret, so its length needs no hiding: each time has the same bytes.
        return cls(gzip.compress(response.content, GZIP_LEVEL, mtime=0), headers, etag)

    def respond(self, request: HttpRequest) -> HttpResponse:
        """The answer in the encoding that the client takes, or 304 where it has it already."""
        if re_accepts_gzip.search(request.META.get("HTTP_ACCEPT_ENCODING", "")):
            response = HttpResponse(self.compressed, headers=self.headers)
            response["Content-Encoding"] = "gzip"
            response["ETag"] = f"W/{self.etag}"
        else:
            response = HttpResponse(gzip.decompress(self.compressed), headers=self.headers)
            response["ETag"] = self.etag
        patch_vary_headers(response, ("Accept-Encoding", "Cookie"))
        answered = get_conditional_response(request, etag=response["ETag"], response=response)
        assert answered is not None
        return answered


class KeptAnswers(threading.local):
    """The answers of one version of the data; another version empties it.

    One for each thread, as database connections are, whose versions do not compare.
    """

    def __init__(self) -> None:
        self._version: Any = None
        self._answers: OrderedDict[tuple[str, ...], KeptAnswer] = OrderedDict()
        self._bytes = 0

    def get(self, version: Any, key: tuple[str, ...]) -> KeptAnswer | None:
        """The answer to ``key`` in this version of the data, where it is kept."""
        if version != self._version:
            self._version, self._bytes = version, 0
            self._answers.clear()
        if key in self._answers:
            self._answers.move_to_end(key)
        return self._answers.get(key)

    def put(self, key: tuple[str, ...], answer: KeptAnswer) -> None:
        """Keep an answer of the version that was last asked for."""
        self._answers[key] = answer
        self._bytes += _bytes_of(key, answer)
        while self._bytes > MOST_KEPT_BYTES:
            self._bytes -= _bytes_of(*self._answers.popitem(last=False))


def _bytes_of(key: tuple[str, ...], answer: KeptAnswer) -> int:
    # An address may be longer than the answer that it names.
    return len(answer.compressed) + sum(len(part.encode(errors="replace")) for part in key)


_kept = KeptAnswers()


def kept_for_visitors(view: View) -> View:
    """Decorate a view whose answer depends on the address, the database and the day alone."""
    never_kept = conditional_page(view)

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        version = _version() if _is_anybodys(request) else None
        if version is None:
            return never_kept(request, *args, **kwargs)
        key = _key_of(request)
        kept = _kept.get(version, key)
        if kept is None:
            response = view(request, *args, **kwargs)
            if not _may_be_kept(request, response):
                return conditional_page(lambda _request: response)(request)
            kept = KeptAnswer.of(response)
            # A write in the meantime may stand in one half of the answer only.
            if _version() == version:
                _kept.put(key, kept)
        return kept.respond(request)

    return answer


def _version() -> Any:
    data = data_version()
    # Pages say how old prices are.
    return None if data is None else (data, timezone.now().date())


def _is_anybodys(request: HttpRequest) -> bool:
    """Whether nothing in the request tells who asks, or names what only some may see."""
    personal = {
        settings.SESSION_COOKIE_NAME,
        settings.CSRF_COOKIE_NAME,
        CookieStorage.cookie_name,
    }
    return (
        not settings.DEBUG
        and request.method in ("GET", "HEAD")
        and personal.isdisjoint(request.COOKIES)
        and "HTTP_AUTHORIZATION" not in request.META
        and not any(OWN_PREFIX in text for _, texts in request.GET.lists() for text in texts)
    )


def _key_of(request: HttpRequest) -> tuple[str, ...]:
    return (
        request.scheme or "",
        request.get_host(),
        request.path,
        request.META.get("QUERY_STRING", ""),
        request.headers.get("HX-Request", ""),
    )


def _may_be_kept(request: HttpRequest, response: HttpResponse) -> bool:
    varies_on = {name.strip().lower() for name in response.get("Vary", "").split(",")} - {""}
    return (
        response.status_code == 200
        and not response.streaming
        and not response.cookies
        and "Cache-Control" not in response
        # Set by a template or a view that took a token for forms.
        and not request.META.get("CSRF_COOKIE_NEEDS_UPDATE")
        and varies_on <= _KNOWN_VARIATIONS
    )
