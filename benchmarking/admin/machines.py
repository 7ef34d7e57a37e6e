"""Devices, machines and prices in the admin."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.text import Truncator

from benchmarking.admin.importing import CatalogueImportAdmin
from benchmarking.admin.price_age import NewestPriceFilter, with_newest_price
from benchmarking.admin.resources import (
    AS_OF_HELP,
    UNKNOWN_DATE,
    DeviceResource,
    MachineResource,
    PriceResource,
)
from benchmarking.models import Device, Machine, Price

SHOWN_SOURCE = 60


class PriceForm(forms.ModelForm):
    """A price that says its date, or says that nobody knows it."""

    as_of = forms.CharField(
        max_length=20, help_text=AS_OF_HELP, initial=lambda: timezone.localdate().isoformat()
    )

    class Meta:
        model = Price
        fields = ("machine", "kind", "region", "usd_per_hour", "as_of", "source", "notional")
        help_texts = {
            "region": "As the cloud writes it, such as us-east-1; 'all' where one price holds "
            "everywhere.",
            "source": "Where somebody else finds this price: a page, a list, a bill.",
        }
        widgets = {"source": forms.TextInput(attrs={"size": 60})}

    def clean_as_of(self) -> str:
        """An unknown date is stored as an empty one."""
        as_of: str = self.cleaned_data["as_of"].strip()
        return "" if as_of == UNKNOWN_DATE else as_of


class AppendOnly:
    """Rows can be added and read: history is not edited."""

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """See ``ModelAdmin``."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """See ``ModelAdmin``."""
        return False


class PriceInline(AppendOnly, admin.TabularInline):
    """A machine's price history, newest first, with room for one more."""

    model = Price
    form = PriceForm
    fields = ("kind", "region", "usd_per_hour", "as_of", "source", "notional", "recorded_at")
    readonly_fields = ("recorded_at",)
    extra = 0
    ordering = ("kind", "region", "-as_of", "-recorded_at")
    verbose_name_plural = "price history"


@admin.register(Device)
class DeviceAdmin(CatalogueImportAdmin):
    """GPUs and CPUs by their specification."""

    resource_classes = [DeviceResource]
    list_display = (
        "slug",
        "name",
        "architecture",
        "usable_memory_mib",
        "fp32_tflops",
        "tf32_tflops",
        "fp16_tflops",
        "bandwidth_gb_s",
        "multiprocessors",
    )
    list_filter = ("kind", "architecture")
    search_fields = ("slug", "name", "note")


@admin.register(Machine)
class MachineAdmin(CatalogueImportAdmin):
    """Machines with their price history."""

    resource_classes = [MachineResource]
    list_display = (
        "slug",
        "newest_price",
        "newest_date",
        "device",
        "device_count",
        "region",
        "vcpus",
        "memory_gib",
        "availability",
    )
    list_filter = ("provider", "availability", NewestPriceFilter, "device")
    list_select_related = ("device",)
    search_fields = ("slug", "instance_type", "device__slug", "device__name")
    autocomplete_fields = ("device",)
    inlines = (PriceInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Machine]:
        """See ``ModelAdmin``."""
        return with_newest_price(super().get_queryset(request))

    @admin.display(description="USD per hour", ordering="newest_usd_per_hour", empty_value="-")
    def newest_price(self, machine: Any) -> str | None:
        """The newest price on demand."""
        usd = machine.newest_usd_per_hour
        return None if usd is None else f"{usd.normalize():f}"

    @admin.display(description="price as of", ordering="newest_as_of", empty_value="-")
    def newest_date(self, machine: Any) -> str | None:
        """Its date or period."""
        return "undated" if machine.newest_as_of == "" else machine.newest_as_of


@admin.register(Price)
class PriceAdmin(AppendOnly, CatalogueImportAdmin):
    """Every price ever recorded; a new one is added, none is changed."""

    resource_classes = [PriceResource]
    form = PriceForm
    list_display = ("machine", "kind", "region", "usd", "dated", "short_source", "notional")
    list_filter = ("kind", "region", "machine__provider", "notional", "machine__availability")
    list_select_related = ("machine",)
    search_fields = ("machine__slug", "machine__device__slug", "source")
    autocomplete_fields = ("machine",)
    date_hierarchy = "recorded_at"

    @admin.display(description="USD per hour", ordering="usd_per_hour")
    def usd(self, price: Price) -> str:
        """The price as it was quoted."""
        return f"{price.usd_per_hour.normalize():f}"

    @admin.display(description="source", ordering="source")
    def short_source(self, price: Price) -> str:
        """The beginning of the source; the price's own page has it whole."""
        return Truncator(price.source).chars(SHOWN_SOURCE)

    @admin.display(description="as of", ordering="as_of")
    def dated(self, price: Price) -> str:
        """The date or period of a price, or that it has none."""
        return price.as_of or "undated"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Price]:
        """See ``ModelAdmin``."""
        return super().get_queryset(request).order_by("machine__slug", "kind", "region", "-as_of")
