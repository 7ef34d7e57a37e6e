"""What is asked for and not measured yet, and which work is under way."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from benchmarking.models.architectures import Architecture
from benchmarking.models.jobs import BenchmarkJob
from benchmarking.models.machines import Machine


class MeasurementRequest(models.Model):
    """How often people asked for a CNN on a machine whose layers are not all measured."""

    machine = models.ForeignKey(Machine, on_delete=models.CASCADE, related_name="requests")
    architecture = models.ForeignKey(
        Architecture, on_delete=models.CASCADE, related_name="measurement_requests"
    )
    request_count = models.PositiveIntegerField(default=0)
    first_requested_at = models.DateTimeField(default=timezone.now)
    last_requested_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-request_count", "first_requested_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["machine", "architecture"], name="measurement_request_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.architecture} on {self.machine}: {self.request_count} times"


class WorkClaim(models.Model):
    """One timing that a job under way is to take: nobody else takes it meanwhile.

    ``benchmarking.jobs.claims`` makes it with the job and deletes it when the job ends.
    """

    job = models.ForeignKey(BenchmarkJob, on_delete=models.CASCADE, related_name="claims")
    key = models.CharField(
        max_length=300, help_text="Device or machine, software stack, layer or CNN, batch size."
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["key"], name="work_claim_unique")]

    def __str__(self) -> str:
        return self.key
