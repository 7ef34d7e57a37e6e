"""EC2 played on this machine or in memory, settings that lead there, and a job to launch for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine
from django.utils import timezone
from pytest_django import Settings

from benchmarking.jobs.lifecycle import State
from benchmarking.models import BenchmarkJob, Machine
from benchmarking.tests import factories
from benchmarking.tests.cloud.fake_api import FakeEc2
from benchmarking.tests.cloud.front import CloudFront
from benchmarking.tests.cloud.worker import Worker
from benchmarking.tests.jobs.driving import NOON, Travel

WORKER_CIDR = "203.0.113.7/32"


@pytest.fixture(scope="session")
def _served_front() -> Iterator[CloudFront]:
    with CloudFront() as front:
        yield front


@pytest.fixture
def front(
    _served_front: CloudFront, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CloudFront]:
    """An empty EC2; whatever a test leaves running is ended after it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "played")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "played")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    settings.EC2_ENDPOINT_URL = _served_front.url
    yield _served_front
    _served_front.on_launch = _served_front.on_end = None
    _served_front.reset()


@pytest.fixture(autouse=True)
def allowed(settings: Settings) -> Settings:
    """An installation that may launch."""
    settings.DEPLOYMENT = "test"
    settings.EC2_WORKER_CIDR = WORKER_CIDR
    settings.BENCHMARK_USD_PER_MONTH = Decimal(100)
    return settings


@pytest.fixture
def clock() -> Iterator[Travel]:
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


@pytest.fixture
def cloud() -> FakeEc2:
    return FakeEc2(
        {"us-east-1": ("us-east-1a", "us-east-1b"), "eu-west-1": ("eu-west-1a", "eu-west-1b")}
    )


@pytest.fixture
def machine() -> Machine:
    """A machine that costs half a dollar an hour in both regions."""
    machine = factories.create_machine(slug="aws-g4dn.xlarge", instance_type="g4dn.xlarge")
    for region in ("us-east-1", "eu-west-1"):
        for kind in ("on-demand", "spot"):
            factories.create_price(
                machine=machine, region=region, kind=kind, usd_per_hour="0.500000"
            )
    return machine


@pytest.fixture
def job(machine: Machine) -> BenchmarkJob:
    """A job that is launching, with an hour until its deadline."""
    return factories.create_job(
        machine=machine,
        host_kind=BenchmarkJob.HostKind.EC2,
        state=State.LAUNCHING,
        deadline=timezone.now() + timedelta(hours=1),
    )


@pytest.fixture
def worker(clock: Travel, job: BenchmarkJob, cloud: FakeEc2) -> Worker:
    return Worker(job, cloud)
