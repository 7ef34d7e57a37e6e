"""Filters of the API's lists: a name that nothing has is refused, as the page refuses it."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.forms import CharField
from django.forms.utils import ErrorList
from django_filters import rest_framework as filters

from benchmarking.models import (
    Architecture,
    ArchitectureLayer,
    Device,
    IterationTiming,
    LayerTiming,
    Machine,
    Price,
)
from benchmarking.specs import Optimizer, Pass, Precision
from benchmarking.suggestions import did_you_mean
from predictions.api.pagination import Pages
from regression.models import Evaluation

PAGE_PARAMETERS = (Pages.limit_query_param, Pages.offset_query_param, "format")
LARGEST_NUMBER = 2**31 - 1


def _refusal(sentence: str) -> ValidationError:
    # As a parameter, because messages are templates and a client may send percent signs.
    return ValidationError("%(sentence)s", code="invalid", params={"sentence": sentence})


class StrictFilterSet(filters.FilterSet):
    """Refuses a parameter that it does not know: a mistyped filter would filter nothing."""

    def is_valid(self) -> bool:
        """Also false where the query string names something that is no filter."""
        known = [*self.filters, *PAGE_PARAMETERS]
        for name in sorted(set(self.data) - set(known)):
            shown = name[:60]
            sentence = f"There is no filter {shown!r}{did_you_mean(shown, known)}."
            self.form.errors[shown] = ErrorList([_refusal(sentence)])
        return bool(super().is_valid())


class _KnownNameField(CharField):
    """The name of a row; an unknown one is refused with the closest known ones."""

    def __init__(self, *, names: Any, noun: str, **options: Any) -> None:
        super().__init__(max_length=80, **options)
        self._names = names
        self._noun = noun

    def clean(self, value: Any) -> Any:
        """The name, where a row has it."""
        name = super().clean(value)
        if not name:
            return name
        known = list(self._names())
        if name not in known:
            raise _refusal(f"Unknown {self._noun} {name!r}{did_you_mean(name, known)}.")
        return name


class NameFilter(filters.CharFilter):
    """Rows that belong to one machine, device or architecture by its name."""

    field_class = _KnownNameField


def machine_filter(field_name: str = "machine__slug") -> NameFilter:
    """``machine=aws-g4dn.xlarge``."""
    return NameFilter(
        field_name=field_name,
        noun="machine",
        names=lambda: Machine.objects.order_by().values_list("slug", flat=True),
    )


def device_filter(field_name: str) -> NameFilter:
    """``device=t4``."""
    return NameFilter(
        field_name=field_name,
        noun="device",
        names=lambda: Device.objects.order_by().values_list("slug", flat=True),
    )


def architecture_filter(**options: Any) -> NameFilter:
    """``architecture=resnet50``; a private network is unknown here."""
    return NameFilter(
        noun="architecture",
        names=lambda: (
            Architecture.objects.public().order_by().values_list("slug", flat=True).distinct()
        ),
        **options,
    )


def whole_number_filter(**options: Any) -> filters.NumberFilter:
    """A whole number that every database can compare."""
    return filters.NumberFilter(min_value=0, max_value=LARGEST_NUMBER, decimal_places=0, **options)


class ArchitectureFilters(StrictFilterSet):
    """Of the list of architectures."""

    image_size = whole_number_filter()

    class Meta:
        model = Architecture
        fields = ("slug", "family")


class DeviceFilters(StrictFilterSet):
    """Of the list of devices."""

    class Meta:
        model = Device
        fields = ("slug", "kind")


class MachineFilters(StrictFilterSet):
    """Of the list of machines."""

    device = device_filter("device__slug")

    class Meta:
        model = Machine
        fields = ("slug", "provider", "availability")


class PriceFilters(StrictFilterSet):
    """Of the list of prices."""

    machine = machine_filter()

    class Meta:
        model = Price
        fields = ("kind", "region")


class EvaluationFilters(StrictFilterSet):
    """Of the list of evaluations."""

    machine = machine_filter()

    class Meta:
        model = Evaluation
        fields = ()


class TimingFilters(StrictFilterSet):
    """What both kinds of timings can be filtered by."""

    machine = machine_filter("run__machine__slug")
    device = device_filter("run__machine__device__slug")
    run = filters.UUIDFilter(field_name="run_id")
    precision = filters.ChoiceFilter(
        field_name="run__stack__precision", choices=[(p.value, p.value) for p in Precision]
    )
    batch_size = whole_number_filter()


class LayerTimingFilters(TimingFilters):
    """Of the timings of convolution layers."""

    architecture = architecture_filter(method="filter_architecture")
    layer = filters.CharFilter(field_name="layer__key", max_length=120)
    operation = filters.ChoiceFilter(choices=[(p.value, p.value) for p in Pass])

    class Meta:
        model = LayerTiming
        fields = ()

    def filter_architecture(
        self, timings: QuerySet[LayerTiming], name: str, slug: str
    ) -> QuerySet[LayerTiming]:
        """Timings of the layers that an architecture has, at any image size."""
        uses = ArchitectureLayer.objects.filter(architecture__slug=slug).order_by()
        # Not by a join: a layer that is used twice would give each timing twice.
        return timings.filter(layer_id__in=uses.values("layer_id"))


class IterationTimingFilters(TimingFilters):
    """Of the timings of whole training iterations."""

    architecture = architecture_filter(field_name="architecture__slug")
    image_size = whole_number_filter(field_name="architecture__image_size")
    optimizer = filters.ChoiceFilter(choices=[(o.value, o.value) for o in Optimizer])

    class Meta:
        model = IterationTiming
        fields = ()
