"""Stored forecasts: the iteration time of a CNN over batch size, one row per curve."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from benchmarking.models import Architecture, Device, Machine
from benchmarking.specs import Optimizer, Precision
from predictions.uploads.models import MeasurementRequest, OwnNetwork

__all__ = ["ForecastCurve", "MeasurementRequest", "OwnNetwork"]


class ForecastCurve(models.Model):
    """Iteration time, memory and source over batch size for one CNN in one place.

    ``points`` holds one list per column of ``regression.iteration.IterationCurve``, all of the
    length of ``points["batch_sizes"]``. A curve is a cache: it may be computed again at any time,
    and one that is older than ``stale_since`` must be.
    """

    architecture = models.ForeignKey(
        Architecture, on_delete=models.CASCADE, related_name="forecast_curves"
    )
    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="forecast_curves")
    machine = models.ForeignKey(
        Machine, null=True, blank=True, on_delete=models.CASCADE, related_name="forecast_curves"
    )
    place = models.CharField(
        max_length=90, help_text="Slug of the machine, or 'device:' and the slug of the device."
    )
    precision = models.CharField(max_length=10, choices=[(p.value, p.value) for p in Precision])
    optimizer = models.CharField(max_length=10, choices=[(o.value, o.value) for o in Optimizer])
    points = models.JSONField()
    largest_batch = models.PositiveIntegerField(null=True, blank=True)
    stack = models.CharField(max_length=200, blank=True)
    model_version = models.CharField(max_length=100)
    inputs_digest = models.CharField(
        max_length=16, help_text="Of the architecture's and the device's own values."
    )
    computed_at = models.DateTimeField(default=timezone.now)
    stale_since = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["architecture", "place", "precision", "optimizer"]
        constraints = [
            models.UniqueConstraint(
                fields=["architecture", "place", "precision", "optimizer"],
                name="forecast_curve_unique",
            )
        ]
        indexes = [
            # predictions.curves.refresh_stale_curves looks for these.
            models.Index(
                fields=["stale_since"],
                condition=Q(stale_since__gte=F("computed_at")),
                name="forecast_curve_stale",
            )
        ]

    def __str__(self) -> str:
        return f"{self.architecture} in {self.place}, {self.precision}, {self.optimizer}"

    @property
    def is_stale(self) -> bool:
        """Whether something it was computed from has changed since."""
        return self.stale_since is not None and self.stale_since >= self.computed_at
