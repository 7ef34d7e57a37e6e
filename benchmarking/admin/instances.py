"""Cloud instances in the admin: to look at; only ``benchmarking.jobs.instances`` changes them."""

from __future__ import annotations

from django.contrib import admin
from django.utils import timezone

from benchmarking.admin.architectures import ReadOnly
from benchmarking.jobs import budget
from benchmarking.models import CloudInstance
from benchmarking.money import usd_digits


@admin.register(CloudInstance)
class CloudInstanceAdmin(ReadOnly, admin.ModelAdmin):
    """Launches with what became of them; the newest first."""

    list_display = (
        "intended_at",
        "instance_id",
        "instance_type",
        "price_kind",
        "region",
        "zone",
        "state",
        "usd_per_hour",
        "usd_so_far",
        "terminated_at",
        "job",
    )
    list_filter = ("state", "region", "price_kind", "instance_type")
    list_select_related = ("job__machine",)
    search_fields = ("instance_id", "job__id", "client_token")
    date_hierarchy = "intended_at"

    @admin.display(description="USD so far", ordering="cost_usd")
    def usd_so_far(self, instance: CloudInstance) -> str:
        """What it cost, or has cost until now."""
        return usd_digits(budget.cost_so_far(instance, timezone.now()))
