"""Stored forecast curves in the admin: to look at and to throw away, never to edit."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest

from predictions.models import ForecastCurve
from predictions.uploads import admin as uploads_admin  # noqa: F401 (registers its models)


@admin.register(ForecastCurve)
class ForecastCurveAdmin(admin.ModelAdmin):
    """A curve that is deleted is computed again by the next question."""

    list_display = (
        "architecture",
        "place",
        "precision",
        "optimizer",
        "model_version",
        "computed_at",
        "stale_since",
    )
    list_filter = ("precision", "optimizer", "device")
    search_fields = ("architecture__slug", "place")
    list_select_related = ("architecture",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Curves are computed, not typed."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: ForecastCurve | None = None) -> bool:
        """A changed curve would be a forecast that nothing stands behind."""
        return False
