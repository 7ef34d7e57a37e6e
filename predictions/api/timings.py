"""Every timing that was measured, with its samples, its run and its software stack."""

from __future__ import annotations

from rest_framework import serializers

from benchmarking.models import Architecture, IterationTiming, LayerTiming, MeasurementRun
from predictions.api.filters import IterationTimingFilters, LayerTimingFilters
from predictions.api.lists import CatalogueList

# The probe's whole environment record belongs to each run, and no list shows it.
_UNSHOWN = ("run__environment", "run__completion")


class RunSerializer(serializers.ModelSerializer):
    """One process of the probe: where and with which software its timings were taken."""

    machine = serializers.CharField(source="machine.slug")
    device = serializers.CharField(source="machine.device.slug")
    stack = serializers.CharField(source="stack.to_spec.label")
    precision = serializers.CharField(source="stack.precision")

    class Meta:
        model = MeasurementRun
        fields = ("id", "started_at", "machine", "device", "stack", "precision")


class LayerTimingSerializer(serializers.ModelSerializer):
    """One pass of one convolution layer at one batch size."""

    layer = serializers.CharField(source="layer.key")
    samples_ms = serializers.ListField(child=serializers.FloatField())
    run = RunSerializer()

    class Meta:
        model = LayerTiming
        fields = (
            "layer",
            "batch_size",
            "operation",
            "round",
            "milliseconds",
            "samples_ms",
            "run",
        )


class IterationTimingSerializer(serializers.ModelSerializer):
    """One whole training iteration of an architecture at one batch size."""

    architecture = serializers.CharField(source="architecture.slug")
    image_size = serializers.IntegerField(source="architecture.image_size")
    samples_ms = serializers.ListField(child=serializers.FloatField())
    run = RunSerializer()

    class Meta:
        model = IterationTiming
        fields = (
            "architecture",
            "image_size",
            "batch_size",
            "optimizer",
            "round",
            "milliseconds",
            "samples_ms",
            "peak_memory_bytes",
            "run",
        )


class LayerTimingList(CatalogueList):
    """Measured times of convolution layers, forward and backward, in milliseconds."""

    queryset = LayerTiming.objects.select_related(
        "layer", "run__machine__device", "run__stack"
    ).defer(*_UNSHOWN)
    serializer_class = LayerTimingSerializer
    filterset_class = LayerTimingFilters


class IterationTimingList(CatalogueList):
    """Measured times of whole training iterations, in milliseconds."""

    queryset = (
        IterationTiming.objects.exclude(architecture__source=Architecture.UPLOADED)
        .select_related("architecture", "run__machine__device", "run__stack")
        .defer(*_UNSHOWN, "architecture__operations")
    )
    serializer_class = IterationTimingSerializer
    filterset_class = IterationTimingFilters
