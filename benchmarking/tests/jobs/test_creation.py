"""Which jobs are made, which are refused in one line, and what they may cost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from pytest_django import Settings

from benchmarking.jobs.creation import create_job
from benchmarking.jobs.planner import MeasurementPlan
from benchmarking.jobs.quote import JobRefusedError, quote_job
from benchmarking.models import BenchmarkJob, Machine, Price, WorkClaim
from benchmarking.probe.plan import ConvolutionWork, StackRequest
from benchmarking.specs import Pass
from benchmarking.tests import factories

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
WORK = (ConvolutionWork(factories.MIDDLE_LAYER, 1, tuple(Pass)),)
HostKind = BenchmarkJob.HostKind


@pytest.fixture(autouse=True)
def limits(settings: Settings) -> Settings:
    settings.BENCHMARK_USD_PER_MONTH = Decimal(100)
    settings.BENCHMARK_USD_PER_JOB = Decimal(10)
    settings.EC2_REGIONS = []
    return settings


@pytest.fixture
def machine() -> Machine:
    machine = factories.create_machine(slug="aws-p3.2xlarge")
    factories.create_price(machine=machine, usd_per_hour="3.06")
    factories.create_price(machine=machine, usd_per_hour="0.9", kind=Price.Kind.SPOT)
    return machine


def create(machine: Machine, expected_seconds: float = 600.0, **values: Any) -> BenchmarkJob:
    plan = MeasurementPlan(values.pop("work", WORK), expected_seconds, None, 0)
    defaults = {"host_kind": HostKind.EC2, "stack": StackRequest()}
    return create_job(machine=machine, plan=plan, **{**defaults, **values})


def test_quote_of_a_machine_that_is_paid_for(machine: Machine) -> None:
    with time_machine.travel(NOON, tick=False):
        quote = quote_job(machine=machine, expected_seconds=1200.0, host_kind=HostKind.EC2)

    assert (quote.expected_seconds, quote.boot_seconds) == (1200.0, 240.0)
    assert quote.time_budget_seconds == 3600.0
    # Boot 15 min, measuring 60, collection 15, and 10 more until the machine ends itself.
    assert quote.maximum_hours == Decimal("1.6667")
    assert quote.usd_per_hour == Decimal("3.06")
    assert quote.expected_usd == Decimal("1.23")
    assert quote.maximum_usd == Decimal("5.11")
    assert quote.deadline == NOON + timedelta(minutes=90)
    assert not quote.is_cut_short


@pytest.mark.parametrize("host_kind", [HostKind.LOCAL, HostKind.SSH])
def test_quote_where_nothing_is_paid(machine: Machine, host_kind: str) -> None:
    with time_machine.travel(NOON, tick=False):
        quote = quote_job(machine=machine, expected_seconds=60.0, host_kind=host_kind)

    assert (quote.usd_per_hour, quote.expected_usd, quote.maximum_usd) == (None, None, None)
    assert (quote.boot_seconds, quote.time_budget_seconds) == (0.0, 3600.0)
    assert quote.deadline == NOON + timedelta(minutes=75)


def test_what_may_be_spent_cuts_the_time_that_is_measured(machine: Machine) -> None:
    quote = quote_job(
        machine=machine,
        expected_seconds=7200.0,
        host_kind=HostKind.EC2,
        maximum_usd=Decimal("5.00"),
    )

    assert quote.time_budget_seconds == pytest.approx((5 / 3.06 - 40 / 60) * 3600, abs=2.0)
    assert quote.maximum_usd == Decimal("5.00")
    assert quote.is_cut_short


def test_spot_and_the_dearest_allowed_region_are_quoted(machine: Machine, limits: Settings) -> None:
    factories.create_price(machine=machine, usd_per_hour="4.2", region="eu-west-1")

    def price(kind: str) -> Decimal | None:
        return quote_job(
            machine=machine, expected_seconds=1.0, host_kind=HostKind.EC2, price_kind=kind
        ).usd_per_hour

    assert price(Price.Kind.SPOT) == Decimal("0.9")
    assert price(Price.Kind.ON_DEMAND) == Decimal("3.06")
    limits.EC2_REGIONS = ["us-east-1", "eu-west-1", "eu-west-2"]
    assert price(Price.Kind.ON_DEMAND) == Decimal("4.2")


def test_job_of_a_machine_that_is_paid_for(machine: Machine) -> None:
    with time_machine.travel(NOON, tick=False):
        job = create(machine, price_kind=Price.Kind.SPOT, maximum_usd=Decimal("1.20"))

    stored = BenchmarkJob.objects.get(pk=job.pk)
    assert (stored.host_kind, stored.price_kind) == ("ec2", "spot")
    assert stored.maximum_usd == Decimal("1.20")
    assert stored.plan["time_budget_seconds"] == 1800.0
    assert stored.deadline == NOON + timedelta(days=7)
    assert stored.events.get().message == "1 pieces of work planned. It costs at most 1.20 USD."


def test_job_on_a_remote_host(machine: Machine) -> None:
    host = factories.create_remote_host(machine)

    job = create(machine, host_kind=HostKind.SSH, remote_host=host)

    assert (job.remote_host, job.maximum_usd) == (host, None)


def test_same_key_gives_the_same_job(machine: Machine) -> None:
    first = create(machine, idempotency_key="abc")

    assert create(machine, idempotency_key="abc") == first
    assert BenchmarkJob.objects.count() == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"maximum_usd": Decimal("10.01")},
            "A job may cost at most 10.00 USD (BENCHMARK_USD_PER_JOB), not 10.01 USD.",
        ),
        ({"maximum_usd": Decimal(0)}, "The most that a job may cost must be above 0 USD."),
        (
            {"maximum_usd": Decimal(2)},
            "2.00 USD are too little: booting and the shortest useful run on aws-p3.2xlarge at "
            "3.06 USD an hour need 2.30 USD.",
        ),
        ({"work": ()}, "Nothing is missing on aws-p3.2xlarge."),
        ({"idempotency_key": "x" * 65}, "An idempotency key has 1 to 64 characters."),
        (
            {"host_kind": HostKind.SSH},
            "A job over SSH needs a remote host; the admin lists them.",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line_and_nothing_is_stored(
    machine: Machine, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(JobRefusedError) as refusal:
        create(machine, **values)

    assert str(refusal.value) == message
    assert (BenchmarkJob.objects.count(), WorkClaim.objects.count()) == (0, 0)


def test_retired_machine_is_refused(machine: Machine) -> None:
    machine.availability = Machine.Availability.RETIRED

    with pytest.raises(JobRefusedError) as refusal:
        create(machine)

    assert str(refusal.value) == (
        "aws-p3.2xlarge cannot be rented any more; choose another machine."
    )


def test_machine_without_a_price_is_refused(limits: Settings) -> None:
    limits.EC2_REGIONS = ["us-east-1", "eu-west-1"]

    with pytest.raises(JobRefusedError) as refusal:
        create(factories.create_machine(slug="aws-new.large"))

    assert str(refusal.value) == (
        "No on demand price of aws-new.large is known in us-east-1, eu-west-1; refresh_prices "
        "fetches prices, and the admin takes them."
    )


@pytest.mark.parametrize("name", ["BENCHMARK_USD_PER_MONTH", "BENCHMARK_INSTANCES"])
def test_limit_of_zero_refuses_what_costs_money_and_nothing_else(
    machine: Machine, limits: Settings, name: str
) -> None:
    setattr(limits, name, 0)

    with pytest.raises(JobRefusedError) as refusal:
        create(machine)

    assert str(refusal.value) == (
        f"{name} is 0, so nothing that costs money is launched; set it higher."
    )
    assert create(machine, host_kind=HostKind.LOCAL).maximum_usd is None


def test_remote_host_must_be_enabled_and_of_the_machine(machine: Machine) -> None:
    other = factories.create_machine(slug="aws-other")
    workstation = factories.create_remote_host(machine, name="workstation")
    switched_off = factories.create_remote_host(machine, name="off", is_enabled=False)

    def refusal(machine: Machine, **values: Any) -> str:
        with pytest.raises(JobRefusedError) as error:
            create(machine, **values)
        return str(error.value)

    assert refusal(machine, host_kind=HostKind.SSH, remote_host=switched_off) == (
        "The remote host off is switched off in the admin."
    )
    assert refusal(
        other,
        host_kind=HostKind.SSH,
        remote_host=workstation,
    ) == ("The remote host workstation is a aws-p3.2xlarge, not a aws-other.")
    assert refusal(machine, remote_host=switched_off) == ("A job on Amazon EC2 has no remote host.")
