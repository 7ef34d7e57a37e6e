"""A job on a host in memory, at noon."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal

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


@pytest.fixture
def cloud_machine() -> Machine:
    """One that reports a V100."""
    factories.create_architecture(slug="tinynet")
    device = factories.create_device(reported_name="Tesla V100*", name="V100")
    return factories.create_machine(slug="aws-p3.2xlarge", device=device)


@pytest.fixture
def cloud_job(cloud_machine: Machine, clock: Travel) -> BenchmarkJob:
    """A job on EC2 whose probe has an hour."""
    return factories.create_job(
        machine=cloud_machine,
        host_kind="ec2",
        plan={"time_budget_seconds": 3600.0, "work": []},
        deadline=NOON + timedelta(days=7),
        maximum_usd=Decimal(10),
    )
