"""Devices that compute, machines that can be rented, and what they cost."""

from __future__ import annotations

import re
from datetime import date

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.utils import timezone

from benchmarking.specs import DeviceKind, DeviceSpec

_FIRST_WITH_TF32 = 8.0
_DAY = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")


def validate_as_of(value: str) -> None:
    """Refuse what is neither an ISO date, month or year nor a period of two of them."""
    try:
        days = [_first_day(part) for part in value.split("/")]
    except ValueError:
        days = []
    if len(days) not in (1, 2) or days != sorted(days):
        raise ValidationError(
            f"{value!r} is no date: write 2026-08-17, 2026-08, 2026 or a period such as "
            "2018/2019, and leave it empty where nobody knows."
        )


def _first_day(text: str) -> date:
    match = _DAY.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day = (int(part or 1) for part in match.groups())
    return date(year, month, day)


class Device(models.Model):
    """A GPU model (or CPU) by its specification; ``sources`` names the source of each value."""

    class Kind(models.TextChoices):
        CPU = DeviceKind.CPU.value, "CPU"
        CUDA = DeviceKind.CUDA.value, "CUDA GPU"

    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=80)
    kind = models.CharField(max_length=8, choices=Kind.choices)
    architecture = models.CharField(max_length=40, blank=True, help_text="For example Volta.")
    memory_mib = models.FloatField(null=True, blank=True, help_text="Nominal.")
    usable_memory_mib = models.FloatField(
        null=True, blank=True, help_text="What the framework can allocate."
    )
    fp32_tflops = models.FloatField(null=True, blank=True)
    tf32_tflops = models.FloatField(null=True, blank=True, help_text="Dense; Ampere and later.")
    fp16_tflops = models.FloatField(null=True, blank=True, help_text="Dense, FP32 accumulation.")
    bandwidth_gb_s = models.FloatField(null=True, blank=True)
    multiprocessors = models.PositiveIntegerField(null=True, blank=True)
    clock_mhz = models.FloatField(null=True, blank=True, help_text="Boost clock.")
    compute_capability = models.FloatField(null=True, blank=True)
    l2_mib = models.FloatField(null=True, blank=True)
    tdp_watts = models.FloatField(
        null=True, blank=True, help_text="Power limit; halved for a board of two dies."
    )
    reported_name = models.CharField(
        max_length=120, blank=True, help_text="Device or CPU name in an environment record."
    )
    cpu_signature = models.CharField(
        max_length=40, blank=True, help_text="Family, model and stepping a CPU is pinned to."
    )
    sources = models.JSONField(default=dict, blank=True, help_text="Field name -> source.")
    note = models.CharField(max_length=300, blank=True)
    shipped_values = models.JSONField(
        default=dict,
        editable=False,
        help_text="What the shipped catalogue said when it was last loaded.",
    )

    SPEC_FIELDS = tuple(
        name for name in DeviceSpec.__dataclass_fields__ if name not in ("slug", "kind")
    )

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(usable_memory_mib__isnull=True)
                | models.Q(usable_memory_mib__gt=0),
                name="device_usable_memory_positive",
            )
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Refuse values that no device has; they come from slips in typing a data sheet."""
        errors = {
            name: "must be greater than 0"
            for name in (*self.SPEC_FIELDS, "memory_mib")
            if (value := getattr(self, name)) is not None and value <= 0
        }
        if self.memory_mib and self.usable_memory_mib and self.usable_memory_mib > self.memory_mib:
            errors["usable_memory_mib"] = "is larger than the nominal memory"
        if self.tf32_tflops is not None and (self.compute_capability or 0) < _FIRST_WITH_TF32:
            errors["tf32_tflops"] = "needs compute capability 8.0 (Ampere) or later"
        if errors:
            raise ValidationError(errors)

    def to_spec(self) -> DeviceSpec:
        """The device as numerical modules know it."""
        return DeviceSpec(
            slug=self.slug,
            kind=DeviceKind(self.kind),
            **{name: getattr(self, name) for name in self.SPEC_FIELDS},
        )


class Machine(models.Model):
    """Something rentable that holds devices."""

    class Availability(models.TextChoices):
        CURRENT = "current", "Current"
        RETIRED = "retired", "Retired"

    slug = models.CharField(max_length=80, unique=True)
    provider = models.CharField(max_length=40, db_index=True)
    instance_type = models.CharField(max_length=60)
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="machines")
    device_count = models.PositiveIntegerField(default=1)
    vcpus = models.PositiveIntegerField("vCPUs", null=True, blank=True)
    memory_gib = models.FloatField("memory (GiB)", null=True, blank=True, help_text="Host memory.")
    region = models.CharField(
        max_length=40, blank=True, help_text="Where it is offered by default."
    )
    availability = models.CharField(
        max_length=10, choices=Availability.choices, default=Availability.CURRENT
    )
    dnnmark_root = models.CharField(
        "DNNMark root",
        max_length=300,
        blank=True,
        help_text="Folder of a built DNNMark tree on the machine's image; empty: it has none.",
    )
    source = models.CharField(max_length=300, blank=True, help_text="Source of the specification.")
    no_price_reason = models.CharField(
        max_length=200,
        blank=True,
        help_text="Why no dated price is known; said as long as there is none.",
    )
    note = models.CharField(max_length=300, blank=True)
    shipped_values = models.JSONField(
        default=dict,
        editable=False,
        help_text="What the shipped catalogue said when it was last loaded.",
    )

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(device_count__gte=1), name="machine_device_count_positive"
            )
        ]

    def __str__(self) -> str:
        return self.slug

    def clean(self) -> None:
        """Refuse a size that no machine has."""
        errors = {
            name: "must be greater than 0"
            for name in ("device_count", "vcpus", "memory_gib")
            if (value := getattr(self, name)) is not None and value <= 0
        }
        if errors:
            raise ValidationError(errors)


class Price(models.Model):
    """What a machine costs by the hour, from when and according to whom. Rows are never changed."""

    class Kind(models.TextChoices):
        ON_DEMAND = "on-demand", "On demand"
        SPOT = "spot", "Spot"

    machine = models.ForeignKey(Machine, on_delete=models.CASCADE, related_name="prices")
    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.ON_DEMAND)
    region = models.CharField(max_length=40)
    currency = models.CharField(max_length=3, default="USD")
    usd_per_hour = models.DecimalField(
        "USD per hour", max_digits=12, decimal_places=6, validators=[MinValueValidator(0.000001)]
    )
    as_of = models.CharField(
        max_length=20,
        blank=True,
        validators=[validate_as_of],
        help_text="ISO date, or a period such as 2018/2019; empty where nobody knows.",
    )
    source = models.CharField(max_length=300)
    notional = models.BooleanField(
        default=False, help_text="The price of a comparable machine, not of this one."
    )
    recorded_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["machine", "kind", "region", "-recorded_at", "-id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(usd_per_hour__gt=0), name="price_usd_per_hour_positive"
            ),
            models.CheckConstraint(condition=~models.Q(source=""), name="price_source_named"),
            models.UniqueConstraint(
                fields=["machine", "kind", "region", "as_of", "source"],
                name="price_unique_quotation",
            ),
        ]
        indexes = [models.Index(fields=["machine", "kind", "region", "recorded_at"])]

    def __str__(self) -> str:
        return f"{self.machine} {self.kind} {self.usd_per_hour} USD/h ({self.as_of or 'undated'})"

    @property
    def first_day(self) -> date | None:
        """The day, or a period's first, for nobody knows that a price held until its end.

        ``None`` where the price is undated.
        """
        try:
            return _first_day(self.as_of.split("/")[0])
        except ValueError:
            return None

    def clean(self) -> None:
        """Refuse a price of tomorrow, which would win over every later one, and other money."""
        errors = {}
        if self.currency != "USD":
            errors["currency"] = "must be USD: prices are kept in US dollars per hour"
        if self.usd_per_hour is not None and self.usd_per_hour <= 0:
            errors["usd_per_hour"] = "must be greater than 0; what costs nothing has no price"
        if self.first_day is not None and self.first_day > timezone.localdate():
            errors["as_of"] = f"{self.as_of} is in the future"
        if errors:
            raise ValidationError(errors)
