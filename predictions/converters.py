"""What may stand in an address."""

from __future__ import annotations

from django.urls import register_converter
from django.urls.converters import StringConverter


class NameConverter(StringConverter):
    """The name of a machine or a CNN; anything else, such as a NUL, never reaches the database."""

    regex = "[A-Za-z0-9._-]{1,90}"


register_converter(NameConverter, "name")
