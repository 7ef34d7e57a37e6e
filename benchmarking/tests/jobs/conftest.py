"""A job on a host in memory, at noon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import time_machine

from benchmarking.models import (
    BenchmarkJob,
    Machine,
)
from benchmarking.tests import factories
from benchmarking.tests.jobs.driving import NOON, Travel, new_job
from benchmarking.tests.jobs.fake_host import FakeHost


@pytest.fixture
def clock() -> Iterator[Travel]:
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def machine() -> Machine:
    factories.create_architecture(slug="tinynet")
    return factories.create_cpu_machine(slug="local")


@pytest.fixture
def job(machine: Machine, clock: Travel) -> BenchmarkJob:
    return new_job(machine)
