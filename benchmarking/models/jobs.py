"""Benchmark jobs: what is being measured, where it stands, and what happened to it."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone

from benchmarking.models.machines import Machine, Price
from benchmarking.specs import Engine


class BenchmarkJob(models.Model):
    """A plan of missing timings on its way through acquisition, measuring and collection.

    The database is the queue: ``benchmarking.jobs.lifecycle`` is the only writer of ``state``.
    """

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        LAUNCHING = "launching", "Launching"
        WAITING_CAPACITY = "waiting_capacity", "Waiting for capacity"
        BOOTING = "booting", "Booting"
        RUNNING = "running", "Running"
        COLLECTING = "collecting", "Collecting"
        CLEANING = "cleaning", "Cleaning up"
        SUCCEEDED = "succeeded", "Succeeded"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"

    class HostKind(models.TextChoices):
        LOCAL = "local", "This machine"
        SSH = "ssh", "Any machine over SSH"
        EC2 = "ec2", "Amazon EC2"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    machine = models.ForeignKey(Machine, on_delete=models.PROTECT, related_name="jobs")
    host_kind = models.CharField(max_length=10, choices=HostKind.choices, default=HostKind.LOCAL)
    remote_host = models.ForeignKey(
        "benchmarking.RemoteHost", null=True, blank=True, on_delete=models.PROTECT
    )
    price_kind = models.CharField(
        max_length=10, choices=Price.Kind.choices, default=Price.Kind.ON_DEMAND
    )
    maximum_usd = models.DecimalField(
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        help_text="What was agreed to at most; empty where nothing is paid.",
    )
    engine = models.CharField(
        max_length=10, choices=[(e.value, e.value) for e in Engine], default=Engine.TORCH.value
    )
    state = models.CharField(max_length=20, choices=State.choices, default=State.QUEUED)
    reason = models.CharField(
        max_length=40, blank=True, help_text="Why it ends; see jobs.reasons.Reason."
    )
    plan = models.JSONField(help_text="The plan that the probe reads.")
    planned_count = models.PositiveIntegerField()
    stored_count = models.PositiveIntegerField(default=0)
    failed_count = models.PositiveIntegerField(default=0)
    expected_seconds = models.FloatField()
    current_work = models.CharField(max_length=200, blank=True)
    host_state = models.JSONField(
        default=dict, blank=True, help_text="What the host needs to find its process again."
    )
    ingested_bytes = models.PositiveBigIntegerField(
        default=0, help_text="How far the result file has been stored."
    )
    lease_token = models.UUIDField(null=True, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField(default=timezone.now, help_text="When the next step is due.")
    deadline = models.DateTimeField(help_text="The job ends by then, whatever happens.")
    state_deadline = models.DateTimeField(
        null=True, blank=True, help_text="What the state waits for has come by then."
    )
    step_failures = models.PositiveIntegerField(default=0)
    retry_of = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="retried_by"
    )
    attempt = models.PositiveIntegerField(default=1, help_text="1, or one more than its retry_of.")
    interruptions = models.PositiveIntegerField(
        default=0, help_text="Spot interruptions of this job and those that it retries."
    )
    idempotency_key = models.CharField(
        max_length=64, null=True, blank=True, unique=True, help_text="Of the confirmed form."
    )
    request_digest = models.CharField(
        max_length=64, blank=True, help_text="SHA-256 of what was asked for with that key."
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    FINAL_STATES = (State.SUCCEEDED, State.FAILED, State.CANCELLED)

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            models.Index(
                fields=["due_at"],
                condition=~models.Q(state__in=["succeeded", "failed", "cancelled"]),
                name="job_due_for_sweep",
            )
        ]
        constraints = [
            # Two probes on one computer would slow each other down and both be wrong.
            models.UniqueConstraint(
                fields=["host_kind"],
                condition=models.Q(
                    host_kind="local",
                    state__in=["launching", "booting", "running", "collecting"],
                ),
                name="job_one_local_at_a_time",
            ),
            models.UniqueConstraint(
                fields=["remote_host"],
                condition=models.Q(
                    host_kind="ssh",
                    state__in=["launching", "booting", "running", "collecting"],
                ),
                name="job_one_at_a_time_on_a_remote_host",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.machine} {self.created_at:%Y-%m-%d %H:%M} ({self.state})"

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen to this job."""
        return self.state in self.FINAL_STATES


class JobEvent(models.Model):
    """One thing that happened to a job, in the words an operator reads."""

    job = models.ForeignKey(BenchmarkJob, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(default=timezone.now)
    old_state = models.CharField(max_length=20, blank=True)
    new_state = models.CharField(max_length=20, blank=True)
    reason = models.CharField(max_length=40, blank=True)
    message = models.TextField(blank=True)

    class Meta:
        ordering = ["at", "id"]

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {self.old_state} -> {self.new_state} {self.message}"
