"""The models on another database than the one of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import environ
from django.db import connections
from django.db.utils import load_backend


@contextmanager
def other_database(url: str) -> Iterator[None]:
    """Let this thread's models be those of the database at ``url`` meanwhile."""
    before = connections["default"]
    values = {
        **before.settings_dict,
        "CONN_HEALTH_CHECKS": False,
        "OPTIONS": {},
        **environ.Env.db_url_config(url),
    }
    connections["default"] = load_backend(values["ENGINE"]).DatabaseWrapper(values, "default")
    try:
        yield
    finally:
        connections["default"].close()
        connections["default"] = before
