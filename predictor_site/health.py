"""``/livez``: the process answers. ``/readyz``: it can serve, or why it cannot."""

from __future__ import annotations

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe


@require_safe
@never_cache
def livez(request: HttpRequest) -> JsonResponse:
    """Answer without touching anything, so that a slow database restarts nobody."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """Answer 200 where the database answers and is migrated, else 503 with the reason.

    The broker and the workers are left out on purpose: pages are read from the database.
    """
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        return JsonResponse(
            {"status": "unavailable", "reason": f"database: {type(error).__name__}"}, status=503
        )
    if pending:
        return JsonResponse(
            {"status": "unavailable", "reason": f"{len(pending)} migrations to apply"}, status=503
        )
    return JsonResponse({"status": "ok"})
