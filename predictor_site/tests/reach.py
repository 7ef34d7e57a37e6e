"""Which tests may reach the database or the broker, and so are run on every kind of both.

pytest-django refuses the database to a test that does not ask for it, and ``conftest.py`` fails a
test that sends a task without being one of these: what is left out of a run on other servers
would have asked them nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest
from celery import Celery, Task
from celery.signals import before_task_publish

_FIXTURES = {"db", "transactional_db", "live_server", "django_db_setup"}
_MARKERS = ("django_db", "postgres", "redis", "e2e")


def may_reach_servers(item: pytest.Item) -> bool:
    """Whether the test asks for the database, or its module knows Celery or a task."""
    if _FIXTURES.intersection(getattr(item, "fixturenames", ())):
        return True
    if any(item.get_closest_marker(name) for name in _MARKERS):
        return True
    module = getattr(item, "module", None)
    return any(_belongs_to_celery(value) for value in vars(module).values()) if module else True


def _belongs_to_celery(value: object) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__.split(".")[0] == "celery" or value.__name__.endswith(".tasks")
    return isinstance(value, Celery | Task)


@contextmanager
def noted_tasks() -> Iterator[list[str]]:
    """The names of the tasks that are sent meanwhile."""
    sent: list[str] = []

    def note(sender: str, **_: object) -> None:
        sent.append(sender)

    before_task_publish.connect(note)
    try:
        yield sent
    finally:
        before_task_publish.disconnect(note)
