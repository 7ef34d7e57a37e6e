"""Computers of one's own that are reached over SSH."""

from __future__ import annotations

from django.db import models

from benchmarking.models.machines import Machine


class RemoteHost(models.Model):
    """Where and how to log in, with the one host key that is accepted."""

    name = models.SlugField(max_length=60, unique=True)
    machine = models.ForeignKey(Machine, on_delete=models.PROTECT, related_name="remote_hosts")
    address = models.CharField(max_length=200, help_text="Host name or IP address.")
    port = models.PositiveIntegerField(default=22)
    user = models.CharField(max_length=60)
    host_public_key = models.CharField(
        max_length=1000, help_text="As ssh-keyscan prints it, without the name: ssh-ed25519 AAAA..."
    )
    login_key = models.BinaryField(help_text="The private key, encrypted.")
    login_public_key = models.CharField(
        max_length=2000, help_text="Its public half, for the authorized_keys of that user."
    )
    python = models.CharField(
        max_length=200, default="python3", help_text="The interpreter there that has torch."
    )
    is_enabled = models.BooleanField(default=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
