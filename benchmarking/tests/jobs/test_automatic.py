"""Automatic benchmarks: off by default, one at a time, within every limit."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine
from pytest_django import Settings

from benchmarking.jobs.automatic import launch_automatic_job
from benchmarking.jobs.lifecycle import State
from benchmarking.jobs.reasons import Reason
from benchmarking.jobs.retry import LONGEST_CHAIN
from benchmarking.models import (
    Architecture,
    BenchmarkJob,
    Machine,
    MeasurementRequest,
)
from benchmarking.tests import factories

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


@pytest.fixture(autouse=True)
def allowed(settings: Settings) -> Settings:
    settings.AUTOMATIC_BENCHMARKS = True
    settings.AUTOMATIC_BENCHMARK_MACHINES = ["aws-p3.2xlarge"]
    settings.AUTOMATIC_BENCHMARK_REQUESTS = 3
    settings.BENCHMARK_USD_PER_MONTH = Decimal(50)
    return settings


@pytest.fixture
def machine() -> Machine:
    machine = factories.create_machine(slug="aws-p3.2xlarge")
    factories.create_price(machine=machine, usd_per_hour="3.06")
    return machine


def ask_for(machine: Machine, architecture: Architecture, count: int = 3) -> MeasurementRequest:
    return MeasurementRequest.objects.create(
        machine=machine, architecture=architecture, request_count=count
    )


def test_what_is_asked_for_most_is_measured(machine: Machine) -> None:
    ask_for(machine, factories.create_architecture(slug="alexnet"), 3)
    ask_for(machine, factories.create_architecture(slug="resnet50"), 7)

    job = launch_automatic_job()

    assert job is not None
    assert (job.machine, job.host_kind, job.created_by) == (machine, "ec2", None)
    assert {item["architecture"] for item in job.plan["work"] if "architecture" in item} == {
        "resnet50"
    }
    assert job.maximum_usd == Decimal("3.58")
    assert list(MeasurementRequest.objects.values_list("architecture__slug", flat=True)) == [
        "alexnet"
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AUTOMATIC_BENCHMARKS", False),
        ("BENCHMARKS_ENABLED", False),
        ("AUTOMATIC_BENCHMARK_MACHINES", ["aws-other"]),
        ("AUTOMATIC_BENCHMARK_REQUESTS", 4),
        ("BENCHMARK_USD_PER_MONTH", Decimal(0)),
        ("BENCHMARK_USD_PER_MONTH", Decimal("3.56")),
        ("BENCHMARK_USD_PER_JOB", Decimal("0.10")),
    ],
)
def test_nothing_is_launched_that_the_settings_do_not_allow(
    machine: Machine, allowed: Settings, name: str, value: object
) -> None:
    setattr(allowed, name, value)
    ask_for(machine, factories.create_architecture())

    assert launch_automatic_job() is None
    assert (BenchmarkJob.objects.count(), MeasurementRequest.objects.count()) == (0, 1)


def test_it_is_off_unless_somebody_switches_it_on() -> None:
    shipped = importlib.import_module(os.environ["DJANGO_SETTINGS_MODULE"])

    assert shipped.AUTOMATIC_BENCHMARKS is False
    assert shipped.AUTOMATIC_BENCHMARK_MACHINES == []
    assert shipped.BENCHMARK_USD_PER_MONTH == 0


def test_one_at_a_time(machine: Machine) -> None:
    for _ in range(2):
        ask_for(machine, factories.create_architecture(uses=factories.TINY_USES[:1]))
    job = launch_automatic_job()
    assert job is not None

    assert launch_automatic_job() is None
    BenchmarkJob.objects.update(state=State.SUCCEEDED, reason=Reason.COMPLETED.value)

    assert launch_automatic_job() is not None
    assert BenchmarkJob.objects.count() == 2


def test_what_goes_on_with_an_automatic_job_counts_as_one(machine: Machine) -> None:
    for _ in range(2):
        ask_for(machine, factories.create_architecture(uses=factories.TINY_USES[:1]))
    last = launch_automatic_job()
    assert last is not None
    for _ in range(LONGEST_CHAIN - 1):
        BenchmarkJob.objects.update(state=State.FAILED, reason=Reason.INSTANCE_LOST.value)
        last = factories.create_job(machine=machine, retry_of=last)
        assert launch_automatic_job() is None
    BenchmarkJob.objects.update(state=State.FAILED, reason=Reason.INSTANCE_LOST.value)

    assert launch_automatic_job() is not None


def test_what_failed_is_not_tried_again_on_the_same_day(
    machine: Machine, clock: time_machine.Traveller
) -> None:
    architecture = factories.create_architecture()
    ask_for(machine, architecture)
    job = launch_automatic_job()
    assert job is not None
    job.claims.all().delete()
    BenchmarkJob.objects.update(state=State.FAILED, reason=Reason.QUOTA.value)
    ask_for(machine, architecture)
    assert launch_automatic_job() is None

    clock.shift(timedelta(days=1))
    ask_for(machine, architecture)

    assert launch_automatic_job() is not None


def test_what_is_measured_by_now_is_forgotten(machine: Machine) -> None:
    architecture = factories.create_architecture(source="torchvision")
    stack = factories.create_stack(threads=1, precision="fp32")
    run = factories.create_run(machine=machine, stack=stack)
    factories.create_timings(
        run=run,
        architecture=architecture,
        batch_sizes=(1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512),
    )
    ask_for(machine, architecture)

    assert launch_automatic_job() is None
    assert MeasurementRequest.objects.count() == 0


def test_retired_machines_are_not_launched(machine: Machine) -> None:
    machine.availability = Machine.Availability.RETIRED
    machine.save()
    ask_for(machine, factories.create_architecture())

    assert launch_automatic_job() is None
