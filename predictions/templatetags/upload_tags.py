"""Template filters for the names of private networks."""

from __future__ import annotations

from django import template
from django.urls import reverse

from predictions.uploads.tokens import OWN_PREFIX, slug_of

register = template.Library()


@register.filter
def title_name(slug: str) -> str:
    """A CNN's name for a title: titles travel into histories and logs, secrets must not."""
    return "your own network" if slug.startswith(OWN_PREFIX) else slug


@register.filter
def private_page(slug: str) -> str:
    """The path of a private network's page; empty for a public CNN."""
    token = slug.removeprefix(OWN_PREFIX)
    return reverse("own-network", kwargs={"token": token}) if slug == slug_of(token) else ""
