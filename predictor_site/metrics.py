"""``/metrics``: how the jobs do, for Prometheus and for staff."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseForbidden
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from benchmarking.jobs.metrics import metrics_text
from predictor_site.metrics_token import TOKEN_FILE, metrics_token


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer whoever shows the token, and staff; money is nobody else's business.

    No address is trusted: behind a proxy of this computer everybody comes from 127.0.0.1, and
    nothing in a request tells whether there is one (nginx unasked sends no forwarded header and
    its own idea of the host). Who may read the installation's files may read the token.
    """
    if not _may_read(request):
        return HttpResponseForbidden(
            "Metrics are for staff, and for whoever sends METRICS_TOKEN, or without one the text "
            f"of the file {TOKEN_FILE} in EPOCHCAST_VAR_DIR, as 'Authorization: Bearer ...'.\n",
            content_type="text/plain; charset=utf-8",
        )
    return HttpResponse(metrics_text(), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def _may_read(request: HttpRequest) -> bool:
    if getattr(request.user, "is_staff", False):
        return True
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return kind.lower() == "bearer" and constant_time_compare(token.strip(), metrics_token())
