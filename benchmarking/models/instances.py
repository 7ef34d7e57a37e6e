"""Cloud instances that jobs launch: what was asked for, what became of it, what it costs."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from benchmarking.models.jobs import BenchmarkJob
from benchmarking.models.machines import Price


class CloudInstance(models.Model):
    """One launch: written before the cloud is asked, and kept until the cloud says it is over.

    ``request`` holds the whole request but the user data, which carries a secret; its hash
    stands in ``user_data_sha256``, and the same bytes are made again from the job's secrets.
    """

    class State(models.TextChoices):
        INTENDED = "intended", "Intended"
        PENDING = "pending", "Starting"
        RUNNING = "running", "Running"
        TERMINATING = "terminating", "Terminating"
        TERMINATED = "terminated", "Terminated"
        LOST = "lost", "Lost"

    job = models.ForeignKey(BenchmarkJob, on_delete=models.PROTECT, related_name="instances")
    attempt = models.PositiveIntegerField(help_text="Counts the launches of a job from 1.")
    state = models.CharField(max_length=12, choices=State.choices, default=State.INTENDED)
    region = models.CharField(max_length=40)
    zone = models.CharField(max_length=40, blank=True)
    instance_type = models.CharField(max_length=60)
    price_kind = models.CharField(
        max_length=10, choices=Price.Kind.choices, default=Price.Kind.ON_DEMAND
    )
    client_token = models.CharField(max_length=64, unique=True)
    request = models.JSONField(help_text="What the cloud is asked for, as it is sent.")
    user_data_sha256 = models.CharField(max_length=64)
    instance_id = models.CharField(max_length=40, blank=True, db_index=True)
    address = models.CharField(max_length=60, blank=True)
    usd_per_hour = models.DecimalField(
        "USD per hour", max_digits=12, decimal_places=6, help_text="The price at launch."
    )
    reserved_usd = models.DecimalField(max_digits=12, decimal_places=6)
    cost_usd = models.DecimalField(
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        help_text="From launch to termination at the price at launch; empty until it is over.",
    )
    intended_at = models.DateTimeField(default=timezone.now)
    asked_at = models.DateTimeField(
        null=True, blank=True, help_text="When the launch was last sent; empty if it never was."
    )
    launched_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(help_text="The reaper ends it after this, whatever it does.")
    terminate_asked_at = models.DateTimeField(null=True, blank=True)
    terminated_at = models.DateTimeField(null=True, blank=True)
    cloud_code = models.CharField(
        max_length=100, blank=True, help_text="The cloud's own code of why it was refused or ended."
    )
    message = models.CharField(max_length=500, blank=True, help_text="What the cloud last said.")

    LIVE_STATES = (State.INTENDED, State.PENDING, State.RUNNING, State.TERMINATING)

    class Meta:
        ordering = ["-intended_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["job", "attempt", "zone", "instance_type"], name="instance_unique_launch"
            ),
            models.UniqueConstraint(
                fields=["job"],
                condition=models.Q(state__in=["intended", "pending", "running", "terminating"]),
                name="instance_one_live_of_a_job",
            ),
        ]
        indexes = [models.Index(fields=["state", "region"])]

    def __str__(self) -> str:
        return f"{self.instance_id or 'no id yet'} {self.instance_type} ({self.state})"
