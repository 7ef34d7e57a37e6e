"""Whether anything in the database has changed since it was last asked: one cheap question.

The database itself is asked, not our signals: it knows of every write, by whatever process,
command or hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import connection


@dataclass(frozen=True, slots=True)
class DataVersion:
    """What the database held at a moment; equal versions mean equal rows.

    ``opened`` is the open connection itself, for counts of two connections do not compare.
    """

    opened: Any
    counts: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DataVersion)
            and self.opened is other.opened
            and self.counts == other.counts
        )


def data_version() -> DataVersion | None:
    """The version as this thread's connection sees it; ``None`` where nobody can say.

    Inside a transaction nobody can: what was written there may yet be undone.
    """
    if connection.in_atomic_block or connection.vendor not in _QUESTIONS:
        return None
    with connection.cursor() as cursor:
        cursor.execute(_QUESTIONS[connection.vendor])
        counts = cursor.fetchone()
    opened = connection.connection
    if connection.vendor == "sqlite":
        # data_version counts what others commit, total_changes what this connection writes.
        counts = (*counts, opened.total_changes)
    return DataVersion(opened, counts)


_QUESTIONS = {
    "sqlite": "PRAGMA data_version",
    # Names every transaction that is visible: two equal snapshots see the same rows.
    "postgresql": "SELECT pg_current_snapshot()::text",
}
