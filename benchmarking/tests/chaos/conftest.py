"""One site for all chaos tests, and what they have counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from benchmarking.tests.chaos.site import ChaosSite


@pytest.fixture(scope="session")
def site(django_db_blocker: DjangoDbBlocker) -> Iterator[ChaosSite]:
    with django_db_blocker.unblock(), ChaosSite() as site:
        yield site
