"""Throttles whose counts hold over all web processes of an installation."""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.cache import caches
from django.core.cache.backends.filebased import FileBasedCache
from django.utils.connection import ConnectionProxy
from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.throttling import AnonRateThrottle, SimpleRateThrottle

logger = logging.getLogger(__name__)

COUNTS = "throttles"
"""The cache that holds the counts: files where the broker is files, Redis where it is Redis."""


class SharedThrottle(SimpleRateThrottle):
    """Counts in :data:`COUNTS`; where that cannot be reached, everybody is answered."""

    cache: Any = ConnectionProxy(caches, COUNTS)

    def allow_request(self, request: Request, view: Any) -> bool:
        """Whether this one is within the rate."""
        try:
            with _counting_alone():
                return bool(super().allow_request(request, view))
        except (OSError, RedisError) as error:
            logger.warning("requests are not counted: %s", error)
            return True


class SharedAnonThrottle(SharedThrottle, AnonRateThrottle):
    """Counts whoever is not signed in, by address."""


@contextmanager
def _counting_alone() -> Iterator[None]:
    """Keep other processes from counting in files meanwhile, which would lose one of the two.

    Redis is asked without: at most as many too many pass as ask at the same instant.
    """
    if not isinstance(caches[COUNTS], FileBasedCache):
        yield
        return
    with (settings.VAR_DIR / "throttles.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
