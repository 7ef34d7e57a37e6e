"""Architectures and layers in the admin: to look at, for a trace says what they are."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest

from benchmarking.models import Architecture, ArchitectureLayer, ConvolutionLayer


class ReadOnly:
    """Rows come from traces and are not edited by hand."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """See ``ModelAdmin``."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """See ``ModelAdmin``."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """See ``ModelAdmin``."""
        return False


class UseInline(ReadOnly, admin.TabularInline):
    """The convolution layers of an architecture in the order of their first use."""

    model = ArchitectureLayer
    fields = ("position", "layer", "count", "needs_input_gradient")
    ordering = ("position",)
    extra = 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[ArchitectureLayer]:
        """See ``ModelAdmin``."""
        return super().get_queryset(request).select_related("layer")


@admin.register(Architecture)
class ArchitectureAdmin(ReadOnly, admin.ModelAdmin):
    """CNNs, one row for each image size."""

    list_display = (
        "slug",
        "image_size",
        "family",
        "parameters",
        "multiply_adds",
        "layer_count",
        "minimum_batch_size",
        "source",
        "note",
    )
    list_filter = ("source", "image_size", "minimum_batch_size", "family")
    search_fields = ("slug", "family", "note")
    exclude = ("operations", "layers")
    readonly_fields = ("operation_table",)
    inlines = (UseInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Architecture]:
        """See ``ModelAdmin``."""
        return super().get_queryset(request).annotate(layer_count=Count("uses"))

    @admin.display(description="layers", ordering="layer_count")
    def layer_count(self, architecture: Any) -> int:
        """Unique convolution layers."""
        count: int = architecture.layer_count
        return count

    @admin.display(description="operations")
    def operation_table(self, architecture: Architecture) -> str:
        """One line for each operation: phase, name and calls."""
        return "\n".join(
            f"{phase}: {name} x {calls}" for name, phase, calls, *_ in architecture.operations
        )


@admin.register(ConvolutionLayer)
class ConvolutionLayerAdmin(ReadOnly, admin.ModelAdmin):
    """Unique convolution layers and how many architectures share each."""

    list_display = ("key", "in_channels", "out_channels", "groups", "architecture_count")
    list_filter = ("kernel_height", "stride_height", "bias")
    search_fields = ("key", "architectures__slug")
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[ConvolutionLayer]:
        """See ``ModelAdmin``."""
        return super().get_queryset(request).annotate(architecture_count=Count("uses"))

    @admin.display(description="architectures", ordering="architecture_count")
    def architecture_count(self, layer: Any) -> int:
        """Architectures, counted at each image size, that have this layer."""
        count: int = layer.architecture_count
        return count
