"""Every timing ever taken, with its raw samples; rows are added and never changed."""

from __future__ import annotations

import uuid

from django.db import models

from benchmarking.models.architectures import Architecture, ConvolutionLayer
from benchmarking.models.machines import Machine
from benchmarking.specs import Engine, Optimizer, Pass, Precision, StackSpec


class SoftwareStack(models.Model):
    """The software that timings were taken with; two stacks are never mixed in one forecast."""

    engine = models.CharField(max_length=10, choices=[(e.value, e.value) for e in Engine])
    framework_version = models.CharField(max_length=20)
    precision = models.CharField(max_length=10, choices=[(p.value, p.value) for p in Precision])
    cuda_version = models.CharField(max_length=20, blank=True)
    cudnn_version = models.CharField(max_length=20, blank=True)
    memory_format = models.CharField(max_length=20, default="contiguous")
    cudnn_benchmark = models.BooleanField(default=False)
    threads = models.PositiveIntegerField(default=1)

    SPEC_FIELDS = tuple(StackSpec.__dataclass_fields__)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "engine",
                    "framework_version",
                    "precision",
                    "cuda_version",
                    "cudnn_version",
                    "memory_format",
                    "cudnn_benchmark",
                    "threads",
                ],
                name="software_stack_unique",
            )
        ]

    def __str__(self) -> str:
        return self.to_spec().label

    def to_spec(self) -> StackSpec:
        """The stack as numerical modules know it."""
        values = {name: getattr(self, name) for name in self.SPEC_FIELDS}
        values["engine"] = Engine(self.engine)
        values["precision"] = Precision(self.precision)
        return StackSpec(**values)


class MeasurementRun(models.Model):
    """One process of a probe on one machine: where its timings come from."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    machine = models.ForeignKey(Machine, on_delete=models.PROTECT, related_name="runs")
    stack = models.ForeignKey(SoftwareStack, on_delete=models.PROTECT, related_name="runs")
    job = models.ForeignKey(
        "benchmarking.BenchmarkJob",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="runs",
    )
    started_at = models.DateTimeField()
    environment = models.JSONField(help_text="The probe's environment line as it was printed.")
    completion = models.JSONField(null=True, blank=True, help_text="The probe's done line.")

    class Meta:
        ordering = ["-started_at"]

    def __str__(self) -> str:
        return f"{self.machine} {self.started_at:%Y-%m-%d %H:%M}"


class LayerTiming(models.Model):
    """The time of one pass of one convolution layer at one batch size, in milliseconds."""

    run = models.ForeignKey(MeasurementRun, on_delete=models.CASCADE, related_name="layer_timings")
    layer = models.ForeignKey(ConvolutionLayer, on_delete=models.PROTECT, related_name="timings")
    batch_size = models.PositiveIntegerField()
    operation = models.CharField(max_length=20, choices=[(p.value, p.value) for p in Pass])
    round = models.PositiveIntegerField(default=1)
    samples_ms = models.JSONField()
    milliseconds = models.FloatField(help_text="Median of the samples without the largest.")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["run", "layer", "batch_size", "operation", "round"],
                name="layer_timing_unique",
            ),
            models.CheckConstraint(
                condition=models.Q(milliseconds__gt=0), name="layer_timing_positive"
            ),
        ]
        indexes = [models.Index(fields=["layer", "batch_size", "operation"])]

    def __str__(self) -> str:
        return f"{self.layer} x {self.batch_size} {self.operation}: {self.milliseconds:.3g} ms"


class IterationTiming(models.Model):
    """The time of one whole training iteration at one batch size, in milliseconds."""

    run = models.ForeignKey(
        MeasurementRun, on_delete=models.CASCADE, related_name="iteration_timings"
    )
    architecture = models.ForeignKey(
        Architecture, on_delete=models.PROTECT, related_name="iteration_timings"
    )
    batch_size = models.PositiveIntegerField()
    optimizer = models.CharField(max_length=10, choices=[(o.value, o.value) for o in Optimizer])
    round = models.PositiveIntegerField(default=1)
    samples_ms = models.JSONField()
    milliseconds = models.FloatField(help_text="Median of the samples without the largest.")
    peak_memory_bytes = models.PositiveBigIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["run", "architecture", "batch_size", "optimizer", "round"],
                name="iteration_timing_unique",
            ),
            models.CheckConstraint(
                condition=models.Q(milliseconds__gt=0), name="iteration_timing_positive"
            ),
        ]
        indexes = [models.Index(fields=["architecture", "batch_size"])]

    def __str__(self) -> str:
        return f"{self.architecture} x {self.batch_size}: {self.milliseconds:.4g} ms"


class FailedTiming(models.Model):
    """Work that gave no timing: out of memory is a result that the planner respects."""

    class Kind(models.TextChoices):
        OUT_OF_MEMORY = "out_of_memory", "Out of memory"
        UNTRAINABLE = "untrainable", "Cannot train at this batch size"
        UNSUPPORTED = "unsupported", "Not supported there"
        FATAL = "fatal", "Broke the device context"
        FAILED = "failed", "Failed"

    run = models.ForeignKey(MeasurementRun, on_delete=models.CASCADE, related_name="failures")
    layer = models.ForeignKey(
        ConvolutionLayer, null=True, blank=True, on_delete=models.PROTECT, related_name="failures"
    )
    architecture = models.ForeignKey(
        Architecture, null=True, blank=True, on_delete=models.PROTECT, related_name="failures"
    )
    batch_size = models.PositiveIntegerField()
    round = models.PositiveIntegerField(default=1)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    message = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(layer__isnull=False, architecture__isnull=True)
                | models.Q(layer__isnull=True, architecture__isnull=False),
                name="failed_timing_has_one_subject",
            ),
            # Two, because SQLite takes every null for a value of its own.
            models.UniqueConstraint(
                fields=["run", "layer", "batch_size", "round"], name="failed_layer_timing_unique"
            ),
            models.UniqueConstraint(
                fields=["run", "architecture", "batch_size", "round"],
                name="failed_iteration_timing_unique",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.architecture or self.layer} x {self.batch_size}: {self.kind}"
