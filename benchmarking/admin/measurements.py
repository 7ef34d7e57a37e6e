"""Runs and timings in the admin: to look at, for measurements are append-only."""

from __future__ import annotations

from django.contrib import admin

from benchmarking.admin.architectures import ReadOnly
from benchmarking.models import (
    FailedTiming,
    IterationTiming,
    LayerTiming,
    MeasurementRun,
    SoftwareStack,
)


@admin.register(SoftwareStack)
class SoftwareStackAdmin(ReadOnly, admin.ModelAdmin):
    """The software that timings were taken with."""

    list_display = (
        "__str__",
        "engine",
        "framework_version",
        "precision",
        "cuda_version",
        "cudnn_version",
        "threads",
    )
    list_filter = ("engine", "precision")


@admin.register(MeasurementRun)
class MeasurementRunAdmin(ReadOnly, admin.ModelAdmin):
    """Processes of the probe, with the environment that each printed."""

    list_display = ("started_at", "machine", "stack", "job", "id")
    list_filter = ("machine", "stack")
    list_select_related = ("machine", "stack", "job__machine")
    date_hierarchy = "started_at"


class TimingAdmin(ReadOnly, admin.ModelAdmin):
    """What the two kinds of timing have in common."""

    # Counting a table of millions twice for every page takes longer than reading the page.
    show_full_result_count = False
    list_per_page = 50

    @admin.display(description="Machine", ordering="run__machine")
    def machine(self, timing: LayerTiming | IterationTiming | FailedTiming) -> str:
        """Where the timing was taken."""
        return timing.run.machine.slug


@admin.register(LayerTiming)
class LayerTimingAdmin(TimingAdmin):
    """Passes of convolution layers."""

    list_display = ("layer", "batch_size", "operation", "milliseconds", "round", "machine")
    list_filter = ("operation", "run__machine", "run__stack")
    list_select_related = ("layer", "run__machine")
    search_fields = ("layer__key",)


@admin.register(IterationTiming)
class IterationTimingAdmin(TimingAdmin):
    """Whole training iterations."""

    list_display = (
        "architecture",
        "batch_size",
        "optimizer",
        "milliseconds",
        "peak_memory_bytes",
        "round",
        "machine",
    )
    list_filter = ("optimizer", "run__machine", "run__stack")
    list_select_related = ("architecture", "run__machine")
    search_fields = ("architecture__slug",)


@admin.register(FailedTiming)
class FailedTimingAdmin(TimingAdmin):
    """Work that gave no timing, and why."""

    list_display = ("architecture", "layer", "batch_size", "kind", "message", "machine")
    list_filter = ("kind", "run__machine")
    list_select_related = ("architecture", "layer", "run__machine")
    search_fields = ("architecture__slug", "layer__key", "message")
