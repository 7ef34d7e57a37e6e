"""Keys that open benchmark hosts, encrypted; only ``benchmarking.jobs.secrets`` reads them."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from benchmarking.models.jobs import BenchmarkJob


class JobSecret(models.Model):
    """A job's login key and its host's key; both are erased when the job is cleaned up."""

    job = models.OneToOneField(BenchmarkJob, on_delete=models.CASCADE, related_name="secret")
    login_key = models.BinaryField(help_text="Encrypted; empty once erased.")
    host_key = models.BinaryField(help_text="Encrypted; empty once erased.")
    login_public_key = models.CharField(max_length=200)
    host_public_key = models.CharField(max_length=200)
    created_at = models.DateTimeField(default=timezone.now)
    erased_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"keys of {self.job_id}"
