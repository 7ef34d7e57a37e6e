"""Template tags of the forecast pages."""

from __future__ import annotations

import json
from typing import Any

from django import template
from django.utils.safestring import SafeString, mark_safe

from predictions import table_cells

register = template.Library()


@register.simple_tag
def source_badge(source: str | None) -> SafeString:
    """The badge of a source, a link to what it means and how well it does."""
    return table_cells.source_badge(source)


@register.simple_tag
def figures_script(figures: dict[str, Any]) -> SafeString:
    """The figures as a JSON block that no text in them can leave.

    Django's own ``json_script`` takes ten times as long over the megabyte of a large comparison.
    """
    text = json.dumps(figures, separators=(",", ":"), allow_nan=False)
    for character, escaped in (("<", "\\u003C"), (">", "\\u003E"), ("&", "\\u0026")):
        text = text.replace(character, escaped)
    return mark_safe(f'<script id="figures" type="application/json">{text}</script>')  # noqa: S308
