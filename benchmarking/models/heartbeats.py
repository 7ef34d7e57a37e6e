"""When a process that works in the background was last heard of."""

from __future__ import annotations

from django.db import models


class Heartbeat(models.Model):
    """One row for each kind of process, which writes it again and again."""

    name = models.CharField(max_length=40, primary_key=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} at {self.at:%Y-%m-%d %H:%M:%S}"
