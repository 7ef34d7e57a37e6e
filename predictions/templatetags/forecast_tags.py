"""Template tags of the forecast pages."""

from __future__ import annotations

from django import template
from django.utils.safestring import SafeString

from predictions import tables

register = template.Library()


@register.simple_tag
def source_badge(source: str | None) -> SafeString:
    """The badge of a source, a link to what it means and how well it does."""
    return tables.source_badge(source)
