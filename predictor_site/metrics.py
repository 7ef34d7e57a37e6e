"""``/metrics``: how the jobs do, for Prometheus and for staff."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from benchmarking.jobs.metrics import metrics_text

_LOOPBACK = ("127.0.0.1", "::1")


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer whoever shows the token, staff, and this computer; money is nobody else's business."""
    if not _may_read(request):
        return HttpResponseForbidden(
            "Metrics are for staff, for this computer, and for whoever sends METRICS_TOKEN as "
            "'Authorization: Bearer ...'.\n",
            content_type="text/plain; charset=utf-8",
        )
    return HttpResponse(metrics_text(), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def _may_read(request: HttpRequest) -> bool:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    expected = settings.METRICS_TOKEN
    if expected and kind.lower() == "bearer" and constant_time_compare(token.strip(), expected):
        return True
    return _is_this_computer(request) or bool(getattr(request.user, "is_staff", False))


def _is_this_computer(request: HttpRequest) -> bool:
    """Whether the request began here: behind a proxy every one of them seems to."""
    is_forwarded = settings.HTTPS or any(
        name in request.headers for name in ("Forwarded", "X-Forwarded-For", "X-Forwarded-Proto")
    )
    return request.META.get("REMOTE_ADDR") in _LOOPBACK and not is_forwarded
