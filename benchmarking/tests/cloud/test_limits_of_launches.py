"""What is not launched, because a limit, a setting or the catalogue forbids it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from pytest_django import Settings

from benchmarking.hosts.base import (
    HostFault,
)
from benchmarking.hosts.ec2.request import Image
from benchmarking.jobs.lifecycle import State
from benchmarking.models import BenchmarkJob, CloudInstance, Machine
from benchmarking.tests.cloud.fake_api import FakeApi
from benchmarking.tests.cloud.worker import Worker
from benchmarking.tests.jobs.fake_host import ProcessDeath

pytestmark = pytest.mark.django_db


def test_r21_switched_off_nothing_is_launched_and_what_runs_is_ended(
    worker: Worker, settings: Settings
) -> None:
    settings.BENCHMARKS_ENABLED = False
    assert not worker.acquire()
    assert (CloudInstance.objects.count(), worker.cloud.calls) == (0, [])
    assert "BENCHMARKS_ENABLED" in worker.host_job.state["waits_for"]

    settings.BENCHMARKS_ENABLED = True
    assert worker.acquire()
    assert "waits_for" not in worker.host_job.state
    settings.BENCHMARKS_ENABLED = False
    worker.clean_up()
    assert worker.release()
    assert worker.cloud.live == []


def test_r21_switched_off_between_intent_and_launch(worker: Worker, settings: Settings) -> None:
    worker.cloud.die_at = "before run"
    with pytest.raises(ProcessDeath):
        worker.acquire()
    settings.BENCHMARKS_ENABLED = False

    assert not worker.acquire()
    assert worker.cloud.instances == {}


def test_r4_limit_that_will_be_free_again_is_waited_for(worker: Worker, settings: Settings) -> None:
    settings.BENCHMARK_INSTANCES = 1
    other = Worker(_another_job(worker.job), worker.cloud)
    assert other.acquire()

    assert not worker.acquire()
    assert "BENCHMARK_INSTANCES" in worker.host_job.state["waits_for"]
    assert CloudInstance.objects.filter(job=worker.job).count() == 0

    other.clean_up()
    assert other.release()
    assert worker.acquire()


def test_r4_limit_for_good_ends_the_job(worker: Worker, settings: Settings) -> None:
    settings.BENCHMARK_USD_PER_MONTH = Decimal(0)

    error = worker.acquire_until_fault()
    assert error.fault is HostFault.LIMIT
    assert "BENCHMARK_USD_PER_MONTH is 0" in error.message
    assert worker.cloud.calls == []


def _retire(machine: Machine, settings: Settings) -> None:
    Machine.objects.update(availability=Machine.Availability.RETIRED)


def _forget_prices(machine: Machine, settings: Settings) -> None:
    machine.prices.all().delete()


def _close(machine: Machine, settings: Settings) -> None:
    settings.EC2_WORKER_CIDR = ""


def _move_away(machine: Machine, settings: Settings) -> None:
    Machine.objects.update(provider="azure")


def _nowhere(machine: Machine, settings: Settings) -> None:
    Machine.objects.update(region="ap-south-1")
    machine.prices.filter(region="us-east-1").update(region="ap-south-1")


@pytest.mark.parametrize(
    ("change", "fault", "sentence"),
    [
        (_retire, HostFault.RETIRED, "aws-g4dn.xlarge is retired"),
        (_forget_prices, HostFault.CONFIGURATION, "no on-demand price is known in us-east-1"),
        (_close, HostFault.CONFIGURATION, "EC2_WORKER_CIDR is not set"),
        (_move_away, HostFault.CONFIGURATION, "aws-g4dn.xlarge is a machine of azure"),
        (_nowhere, HostFault.CONFIGURATION, "ap-south-1 offers none"),
    ],
)
def test_what_cannot_be_launched_is_refused_before_aws_is_asked(
    worker: Worker,
    settings: Settings,
    change: Callable[[Machine, Settings], None],
    fault: HostFault,
    sentence: str,
) -> None:
    change(worker.job.machine, settings)
    worker.job = BenchmarkJob.objects.get()

    error = worker.acquire_until_fault()
    assert error.fault is fault
    assert sentence in error.message
    assert CloudInstance.objects.count() == 0


def _another_job(job: BenchmarkJob) -> BenchmarkJob:
    return BenchmarkJob.objects.create(
        machine=job.machine,
        host_kind=job.host_kind,
        state=State.LAUNCHING,
        plan=job.plan,
        planned_count=0,
        expected_seconds=0,
        deadline=job.deadline,
    )


def test_r1_r4_slow_worker_does_not_count_the_launch_of_the_one_that_came_after_it(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    BenchmarkJob.objects.filter(pk=worker.job.pk).update(maximum_usd=Decimal("0.80"))
    faster = Worker(worker.job, worker.cloud)
    find_image = FakeApi.find_image
    launched: list[bool] = []

    def find_image_slowly(api: FakeApi, *arguments: str) -> Image:
        if not launched:
            launched.append(True)
            launched.append(faster.acquire())
        return find_image(api, *arguments)

    monkeypatch.setattr(FakeApi, "find_image", find_image_slowly)

    assert not worker.acquire()
    assert launched == [True, True]
    assert worker.acquire()
    (row,) = CloudInstance.objects.all()
    assert row.reserved_usd < Decimal("0.80") < 2 * row.reserved_usd
    assert len(worker.cloud.live) == 1
