"""Filters that refuse a value which nothing has, and say which ones may have been meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import TextChoices
from django.forms import CharField
from django_filters import fields
from django_filters import rest_framework as filters

from benchmarking.models import Architecture, ConvolutionLayer, Device, Machine, Price
from benchmarking.suggestions import did_you_mean, quoted

LARGEST_NUMBER = 2**31 - 1


def refusal(sentence: str) -> ValidationError:
    """A sentence that a client's percent signs cannot break: messages are templates."""
    return ValidationError("%(sentence)s", code="invalid", params={"sentence": sentence})


class _KnownNameField(CharField):
    """The name of a row; an unknown one is refused with the closest known ones."""

    def __init__(self, *, names: Callable[[], Iterable[str]], noun: str, **options: Any) -> None:
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
            raise refusal(f"Unknown {self._noun} {quoted(name)}{did_you_mean(name, known)}.")
        return name


class NameFilter(filters.CharFilter):
    """Rows that belong to something by its name."""

    field_class = _KnownNameField


class _KnownLayerField(CharField):
    """The key of a layer: thousands are known, too many to find the closest among."""

    def clean(self, value: Any) -> Any:
        """The key, where a layer has it."""
        key = super().clean(value)
        if key and not ConvolutionLayer.objects.filter(key=key).exists():
            raise refusal(f"Unknown layer {quoted(key)}.")
        return key


class LayerFilter(filters.CharFilter):
    """Rows that belong to a convolution layer."""

    field_class = _KnownLayerField


class _RefusesInWords:
    """Names every allowed word where another is given."""

    choices: Any

    def __init__(self, *, noun: str, **options: Any) -> None:
        super().__init__(**options)
        self._noun = noun

    def _refuse(self, word: str) -> ValidationError:
        allowed = [value for value, _ in self.choices if value]
        return refusal(
            f"Unknown {self._noun} {quoted(word)}{did_you_mean(word, allowed)}: "
            f"it is one of {', '.join(allowed)}."
        )


class _WordField(_RefusesInWords, fields.ChoiceField):
    def validate(self, value: Any) -> None:
        """Refuse what is no choice."""
        if value and not self.valid_value(value):
            raise self._refuse(value)


class _WordsField(_RefusesInWords, fields.MultipleChoiceField):
    def validate(self, value: Any) -> None:
        """Refuse the first that is no choice."""
        for word in value or ():
            if not self.valid_value(word):
                raise self._refuse(word)


class WordFilter(filters.ChoiceFilter):
    """One of a few words."""

    field_class = _WordField


class WordsFilter(filters.MultipleChoiceFilter):
    """Any of a few words."""

    field_class = _WordsField


def word_filter(noun: str, words: type[StrEnum] | type[TextChoices], **options: Any) -> WordFilter:
    """A filter by a word of an enumeration."""
    choices = getattr(words, "choices", None) or [(word.value, word.value) for word in words]
    return WordFilter(noun=noun, choices=choices, **options)


def machine_filter(field_name: str = "machine__slug") -> NameFilter:
    """``machine=aws-g4dn.xlarge``."""
    return NameFilter(field_name=field_name, noun="machine", names=_names(Machine.objects, "slug"))


def device_filter(field_name: str) -> NameFilter:
    """``device=t4``."""
    return NameFilter(field_name=field_name, noun="device", names=_names(Device.objects, "slug"))


def architecture_filter(column: str = "slug", **options: Any) -> NameFilter:
    """``architecture=resnet50``; a private network is unknown here."""
    noun = "architecture" if column == "slug" else column
    return NameFilter(noun=noun, names=_names(Architecture.objects.public(), column), **options)


def provider_filter() -> NameFilter:
    """``provider=aws``."""
    return NameFilter(noun="provider", names=_names(Machine.objects, "provider"))


def region_filter() -> NameFilter:
    """``region=us-east-1``, of those that some price is for."""
    return NameFilter(noun="region", names=_names(Price.objects, "region"))


def whole_number_filter(**options: Any) -> filters.NumberFilter:
    """A whole number that every database can compare."""
    return filters.NumberFilter(min_value=0, max_value=LARGEST_NUMBER, decimal_places=0, **options)


def _names(rows: Any, column: str) -> Callable[[], Iterable[str]]:
    # A fresh query each time: a kept one would answer from what it once read.
    return lambda: rows.order_by().values_list(column, flat=True).distinct()
