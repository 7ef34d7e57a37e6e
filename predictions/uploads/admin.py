"""Own networks in the admin: whose time is when over, and what people would like measured."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from predictions.uploads.models import MeasurementRequest, OwnNetwork
from predictions.uploads.services import delete_network


class ReadOnlyAdmin(admin.ModelAdmin):
    """Rows come from people's forms; operators look and delete."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nothing is typed in here."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nor changed."""
        return False


@admin.register(OwnNetwork)
class OwnNetworkAdmin(ReadOnlyAdmin):
    """The list names no link: those belong to the people who have them."""

    list_display = ("label", "uploaded_at", "expires_at")
    fields = ("label", "uploaded_at", "expires_at", "content_digest")

    def delete_model(self, request: HttpRequest, obj: OwnNetwork) -> None:
        """With its architecture and curves."""
        delete_network(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[OwnNetwork]) -> None:
        """With their architectures and curves."""
        for network in queryset.select_related("architecture"):
            delete_network(network)


@admin.register(MeasurementRequest)
class MeasurementRequestAdmin(ReadOnlyAdmin):
    """What to pass to ``benchmark --machine ... --architectures ...``, should one want to."""

    list_display = ("own_network", "machine", "missing_layers", "architecture", "requested_at")
    list_filter = ("machine",)
    list_select_related = ("own_network__architecture", "machine")

    @admin.display(description="Name for the benchmark command")
    def architecture(self, request: MeasurementRequest) -> str:
        """The network's private name."""
        return request.own_network.architecture.slug
