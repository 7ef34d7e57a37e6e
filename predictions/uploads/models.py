"""Who may see an uploaded network and until when, and what its owner would like measured."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models
from django.db.models import Q
from django.utils import timezone

from benchmarking.models import Architecture, Machine
from predictions.uploads.tokens import OWN_PREFIX

KEPT_FOR = timedelta(days=30)


def expiry_of_a_new_network() -> datetime:
    """When a network that is uploaded now goes."""
    return timezone.now() + KEPT_FOR


class OwnNetworkQuerySet(models.QuerySet["OwnNetwork"]):
    """Own networks by whether their time is over."""

    def current(self) -> OwnNetworkQuerySet:
        """Those that may still be seen, whether or not the daily task has run."""
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))

    def expired(self) -> OwnNetworkQuerySet:
        """Those that the daily task removes."""
        return self.filter(expires_at__lte=timezone.now())


class OwnNetwork(models.Model):
    """The private link to one uploaded network; without this row nobody can name it."""

    architecture = models.OneToOneField(
        Architecture, on_delete=models.CASCADE, related_name="own_network"
    )
    label = models.CharField(max_length=80, help_text="As the file or the traced function.")
    uploaded_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(
        null=True, blank=True, default=expiry_of_a_new_network, help_text="Empty: kept."
    )
    content_digest = models.CharField(max_length=64, help_text="SHA-256 of what was sent.")
    idempotency_digest = models.CharField(
        max_length=64,
        null=True,
        blank=True,
        unique=True,
        help_text="SHA-256 of the sender's address and Idempotency-Key.",
    )

    objects = OwnNetworkQuerySet.as_manager()

    class Meta:
        ordering = ["-uploaded_at"]
        # The daily task looks for these.
        indexes = [models.Index(fields=["expires_at"], name="own_network_expires_at")]

    def __str__(self) -> str:
        return f"{self.label}, uploaded {self.uploaded_at:%Y-%m-%d}"

    @property
    def token(self) -> str:
        """The secret part of its link."""
        return self.architecture.slug.removeprefix(OWN_PREFIX)

    @property
    def is_kept(self) -> bool:
        """Whether it stays until somebody deletes it."""
        return self.expires_at is None


class MeasurementRequest(models.Model):
    """A wish for the operators: measure the missing layers there. It starts nothing."""

    own_network = models.ForeignKey(
        OwnNetwork, on_delete=models.CASCADE, related_name="measurement_requests"
    )
    machine = models.ForeignKey(
        Machine, on_delete=models.CASCADE, related_name="measurement_requests"
    )
    missing_layers = models.PositiveIntegerField(help_text="When it was asked for.")
    requested_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-requested_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["own_network", "machine"], name="measurement_request_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.missing_layers} layers of {self.own_network} on {self.machine}"
