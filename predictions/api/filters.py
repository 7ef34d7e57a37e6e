"""Filters of the API's lists: a name that nothing has is refused, as the page refuses it."""

from __future__ import annotations

from django.db.models import QuerySet
from django.forms.utils import ErrorList
from django.http import QueryDict
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
from benchmarking.suggestions import did_you_mean, quoted
from predictions.api.filter_fields import (
    LayerFilter,
    WordsFilter,
    architecture_filter,
    device_filter,
    machine_filter,
    provider_filter,
    refusal,
    region_filter,
    whole_number_filter,
    word_filter,
)
from predictions.api.pagination import Pages
from regression.models import Evaluation

PAGE_PARAMETERS = (Pages.limit_query_param, Pages.offset_query_param, "format")
_SHOWN_CHARACTERS = 60


class StrictFilterSet(filters.FilterSet):
    """Refuses what would filter nothing or otherwise than meant.

    That is a parameter that it does not know, and several values where one counts.
    """

    def is_valid(self) -> bool:
        """Also false where the query string is refused before any filter looks at it."""
        known = [*self.filters, *PAGE_PARAMETERS]
        for name in sorted(set(self.data) - set(known)):
            shown = name[:_SHOWN_CHARACTERS]
            sentence = f"There is no filter {quoted(shown)}{did_you_mean(shown, known)}."
            self.form.errors[shown] = ErrorList([refusal(sentence)])
        for name in self._given_twice():
            values = len(set(self.data.getlist(name)))
            self.form.errors[name] = ErrorList(
                [refusal(f"Give {name} once (got {values} different values).")]
            )
        return bool(super().is_valid())

    def _given_twice(self) -> list[str]:
        if not isinstance(self.data, QueryDict):
            return []
        return [
            name
            for name in sorted(self.data)
            if len(set(self.data.getlist(name))) > 1
            and (name in PAGE_PARAMETERS or name in self.filters)
            and not isinstance(self.filters.get(name), WordsFilter)
        ]


class ArchitectureFilters(StrictFilterSet):
    """Of the list of architectures."""

    slug = architecture_filter()
    family = architecture_filter("family")
    image_size = whole_number_filter()

    class Meta:
        model = Architecture
        fields = ()


class DeviceFilters(StrictFilterSet):
    """Of the list of devices."""

    slug = device_filter("slug")
    kind = word_filter("kind", Device.Kind)

    class Meta:
        model = Device
        fields = ()


class MachineFilters(StrictFilterSet):
    """Of the list of machines."""

    slug = machine_filter("slug")
    provider = provider_filter()
    availability = word_filter("availability", Machine.Availability)
    device = device_filter("device__slug")

    class Meta:
        model = Machine
        fields = ()


class PriceFilters(StrictFilterSet):
    """Of the list of prices."""

    machine = machine_filter()
    kind = word_filter("kind", Price.Kind)
    region = region_filter()

    class Meta:
        model = Price
        fields = ()


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
    precision = word_filter("precision", Precision, field_name="run__stack__precision")
    batch_size = whole_number_filter()


class LayerTimingFilters(TimingFilters):
    """Of the timings of convolution layers."""

    architecture = architecture_filter(method="filter_architecture")
    layer = LayerFilter(field_name="layer__key", max_length=120)
    operation = word_filter("operation", Pass)

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
    optimizer = word_filter("optimizer", Optimizer)

    class Meta:
        model = IterationTiming
        fields = ()
