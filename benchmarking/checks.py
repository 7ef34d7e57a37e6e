"""What ``manage.py check --database default`` looks at beside Django's own checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError

from benchmarking.jobs.automatic_machines import wrong_machines


@register(Tags.database)
def check_automatic_machines(
    databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Machines that are to be launched by themselves must be in the catalogue."""
    if not databases:
        return []
    try:
        wrong = wrong_machines()
    except DatabaseError:
        # ``migrate`` asks too, before it has made the tables.
        return []
    return [
        *(Error(sentence, id="benchmarking.E001") for sentence in wrong.unknown),
        *(Warning(sentence, id="benchmarking.W001") for sentence in wrong.retired),
    ]
