"""Architectures and the convolution layers that they share."""

from __future__ import annotations

from django.db import models

from benchmarking.specs import (
    ConvolutionSpec,
    ConvolutionUse,
    OperationSpec,
    Phase,
    TracedNetwork,
)


class ConvolutionLayer(models.Model):
    """One unique convolution configuration; every architecture that has it shares its timings."""

    key = models.CharField(max_length=120, unique=True, editable=False)
    in_channels = models.PositiveIntegerField()
    in_height = models.PositiveIntegerField()
    in_width = models.PositiveIntegerField()
    out_channels = models.PositiveIntegerField()
    kernel_height = models.PositiveIntegerField()
    kernel_width = models.PositiveIntegerField()
    stride_height = models.PositiveIntegerField()
    stride_width = models.PositiveIntegerField()
    padding_height = models.PositiveIntegerField()
    padding_width = models.PositiveIntegerField()
    dilation_height = models.PositiveIntegerField()
    dilation_width = models.PositiveIntegerField()
    groups = models.PositiveIntegerField()
    bias = models.BooleanField()

    SPEC_FIELDS = tuple(ConvolutionSpec.__dataclass_fields__)

    class Meta:
        ordering = ["key"]

    def __str__(self) -> str:
        return self.key

    @classmethod
    def from_spec(cls, spec: ConvolutionSpec) -> ConvolutionLayer:
        """An unsaved layer for ``spec``."""
        return cls(key=spec.key, **{name: getattr(spec, name) for name in cls.SPEC_FIELDS})

    def to_spec(self) -> ConvolutionSpec:
        """The layer as numerical modules know it."""
        return ConvolutionSpec(**{name: getattr(self, name) for name in self.SPEC_FIELDS})


class ArchitectureQuerySet(models.QuerySet["Architecture"]):
    """Architectures, some of which only those who know their name may see."""

    def public(self) -> ArchitectureQuerySet:
        """Without the networks that people uploaded: for every list and suggestion."""
        return self.exclude(source=Architecture.UPLOADED)

    def with_layers(self) -> ArchitectureQuerySet:
        """With all that ``to_spec`` reads, in two queries, for any number of networks.

        Layers are joined to their uses: fetched by themselves, Django asks for each with an OR of
        its own, and SQLite takes no more than a thousand.
        """
        uses = ArchitectureLayer.objects.select_related("layer")
        return self.prefetch_related(models.Prefetch("uses", queryset=uses))


class Architecture(models.Model):
    """A CNN at one input image size, as tracing one training iteration described it."""

    # The source of networks that people bring; the name of one is the key to it.
    UPLOADED = "upload"

    slug = models.CharField(max_length=80)
    image_size = models.PositiveIntegerField(help_text="Height and width of an example in pixels.")
    family = models.CharField(max_length=40, db_index=True)
    source = models.CharField(max_length=40, default="torchvision")
    source_version = models.CharField(max_length=40, blank=True)
    parameters = models.PositiveBigIntegerField()
    parameter_tensors = models.PositiveIntegerField()
    multiply_adds = models.PositiveBigIntegerField(help_text="Forward, per example.")
    saved_bytes_per_example = models.FloatField(help_text="Kept for the backward pass, FP32.")
    saved_bytes_fixed = models.FloatField()
    saved_bytes_amp_per_example = models.FloatField()
    saved_bytes_amp_fixed = models.FloatField()
    minimum_batch_size = models.PositiveIntegerField(default=1)
    note = models.CharField(max_length=300, blank=True)
    operations = models.JSONField(
        help_text="Rows of name, phase, calls, bytes per example, fixed bytes, multiply-adds."
    )
    layers: models.ManyToManyField[ConvolutionLayer, ArchitectureLayer] = models.ManyToManyField(
        ConvolutionLayer, through="ArchitectureLayer", related_name="architectures"
    )

    objects = ArchitectureQuerySet.as_manager()

    class Meta:
        ordering = ["slug", "image_size"]
        constraints = [
            models.UniqueConstraint(
                fields=["slug", "image_size"], name="architecture_unique_slug_image_size"
            ),
            models.CheckConstraint(
                condition=models.Q(minimum_batch_size__gte=1),
                name="architecture_minimum_batch_size_positive",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.slug} at {self.image_size} px"

    def to_spec(self) -> TracedNetwork:
        """The traced network; reads ``uses`` with their layers (``with_layers`` for many)."""
        uses = sorted(self.uses.all(), key=lambda use: use.position)
        return TracedNetwork(
            slug=self.slug,
            family=self.family,
            image_size=self.image_size,
            parameters=self.parameters,
            parameter_tensors=self.parameter_tensors,
            multiply_adds=self.multiply_adds,
            saved_bytes_per_example=self.saved_bytes_per_example,
            saved_bytes_fixed=self.saved_bytes_fixed,
            saved_bytes_amp_per_example=self.saved_bytes_amp_per_example,
            saved_bytes_amp_fixed=self.saved_bytes_amp_fixed,
            convolutions=tuple(use.to_spec() for use in uses),
            operations=tuple(
                OperationSpec(name, Phase(phase), calls, per_example, fixed, multiply_adds)
                for name, phase, calls, per_example, fixed, multiply_adds in self.operations
            ),
            minimum_batch_size=self.minimum_batch_size,
            note=self.note,
        )


class ArchitectureLayer(models.Model):
    """How an architecture uses a convolution layer."""

    architecture = models.ForeignKey(Architecture, on_delete=models.CASCADE, related_name="uses")
    layer = models.ForeignKey(ConvolutionLayer, on_delete=models.PROTECT, related_name="uses")
    position = models.PositiveIntegerField(help_text="Order of first use in the forward pass.")
    count = models.PositiveIntegerField(help_text="Runs of this layer in one iteration.")
    needs_input_gradient = models.BooleanField(default=True)

    class Meta:
        ordering = ["architecture", "position"]
        constraints = [
            models.UniqueConstraint(
                fields=["architecture", "layer", "needs_input_gradient"],
                name="architecture_layer_unique_use",
            ),
            models.CheckConstraint(
                condition=models.Q(count__gte=1), name="architecture_layer_count_positive"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.count} x {self.layer}"

    def to_spec(self) -> ConvolutionUse:
        """The use as numerical modules know it."""
        return ConvolutionUse(self.layer.to_spec(), self.count, self.needs_input_gradient)
