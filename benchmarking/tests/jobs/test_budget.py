"""R4 and R20: never above a limit, and the books close."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from django.db import connection, transaction
from pytest_django import DjangoAssertNumQueries, Settings

from benchmarking.jobs import budget
from benchmarking.jobs.budget import (
    LimitReachedError,
    cost_until,
    job_cost_usd,
    reserve,
    settle,
    settle_open_books,
    spending,
)
from benchmarking.models import BenchmarkJob, CloudInstance
from benchmarking.tests.factories import create_instance, create_job, create_machine

NOON = datetime(2026, 5, 10, 12, tzinfo=UTC)
State = CloudInstance.State


@pytest.fixture(autouse=True)
def limits(settings: Settings) -> Settings:
    settings.BENCHMARK_USD_PER_JOB = Decimal(10)
    settings.BENCHMARK_USD_PER_HOUR = Decimal(8)
    settings.BENCHMARK_USD_PER_MONTH = Decimal(100)
    settings.BENCHMARK_INSTANCES = 3
    settings.BENCHMARK_INSTANCES_PER_REGION = 2
    return settings


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


def cloud_job(**values: Any) -> BenchmarkJob:
    return create_job(machine=create_machine(), host_kind=BenchmarkJob.HostKind.EC2, **values)


def try_to_reserve(
    job: BenchmarkJob | None = None, region: str = "us-east-1", price: str = "1", hours: str = "2"
) -> Decimal:
    with transaction.atomic():
        return reserve(
            job or cloud_job(), region=region, usd_per_hour=Decimal(price), hours=Decimal(hours)
        )


@pytest.mark.django_db
def test_r4_what_is_reserved_is_price_times_hours() -> None:
    assert try_to_reserve(price="3.06", hours="1.5") == Decimal("4.59")
    assert CloudInstance.objects.count() == 0


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("live", "wanted", "message", "may_wait"),
    [
        (
            [{"region": "a"}, {"region": "b"}, {"region": "c"}],
            {},
            "3 instances are live, as many as BENCHMARK_INSTANCES allows (3).",
            True,
        ),
        (
            [{"state": State.INTENDED}, {"state": State.TERMINATING}],
            {},
            "2 instances are live in us-east-1, as many as BENCHMARK_INSTANCES_PER_REGION "
            "allows (2).",
            True,
        ),
        (
            [{"usd_per_hour": Decimal("5.5")}],
            {"price": "2.51", "hours": "1"},
            "The live instances cost 5.50 USD an hour; one for 2.51 USD more would pass the "
            "8.00 USD of BENCHMARK_USD_PER_HOUR.",
            True,
        ),
        (
            [],
            {"price": "8.01", "hours": "1"},
            "The machine costs 8.01 USD an hour, more than the 8.00 USD of BENCHMARK_USD_PER_HOUR.",
            False,
        ),
        (
            [],
            {"price": "2", "hours": "5.5"},
            "The job may cost 11.00 USD, more than the 10.00 USD of BENCHMARK_USD_PER_JOB.",
            False,
        ),
        (
            [
                {"reserved_usd": Decimal(60)},
                {
                    "state": State.TERMINATED,
                    "terminated_at": NOON - timedelta(days=9),
                    "cost_usd": Decimal("38.50"),
                },
            ],
            {},
            "38.50 USD are spent this month and 60.00 USD reserved; 2.00 USD more would pass the "
            "100.00 USD of BENCHMARK_USD_PER_MONTH.",
            False,
        ),
    ],
)
def test_r4_each_limit_is_named_with_its_value_and_setting(
    clock: Any, live: list[dict[str, Any]], wanted: dict[str, str], message: str, may_wait: bool
) -> None:
    for values in live:
        create_instance(**values)

    with pytest.raises(LimitReachedError) as refusal:
        try_to_reserve(**wanted)

    assert (refusal.value.message, refusal.value.may_wait) == (message, may_wait)
    assert (str(refusal.value), refusal.value.fault) == (message, "limit")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "setting",
    [
        "BENCHMARK_USD_PER_MONTH",
        "BENCHMARK_USD_PER_JOB",
        "BENCHMARK_USD_PER_HOUR",
        "BENCHMARK_INSTANCES",
        "BENCHMARK_INSTANCES_PER_REGION",
    ],
)
def test_r4_a_limit_of_zero_forbids_every_launch(limits: Settings, setting: str) -> None:
    setattr(limits, setting, 0)

    with pytest.raises(LimitReachedError) as refusal:
        try_to_reserve(price="0.01", hours="0.01")

    assert refusal.value.message == (
        f"{setting} is 0, so nothing that costs money is launched; set it higher."
    )
    assert not refusal.value.may_wait


@pytest.mark.django_db
def test_r4_what_was_agreed_to_holds_over_all_launches_of_a_job(clock: Any) -> None:
    job = cloud_job(maximum_usd=Decimal(5))
    assert try_to_reserve(job, hours="5") == 5
    create_instance(job=job, state=State.TERMINATED, terminated_at=NOON, cost_usd=Decimal("0.75"))

    assert try_to_reserve(job, hours="4.25") == Decimal("4.25")
    with pytest.raises(LimitReachedError) as refusal:
        try_to_reserve(job, hours="4.26")

    assert refusal.value.message == (
        "The job may cost 5.01 USD, more than the 5.00 USD that were agreed to; start a new one "
        "with a higher maximum."
    )


@pytest.mark.django_db(transaction=True)
def test_r4_reserving_needs_the_transaction_that_writes_the_row() -> None:
    with pytest.raises(transaction.TransactionManagementError):
        reserve(cloud_job(), region="a", usd_per_hour=Decimal(1), hours=Decimal(1))


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_r4_of_twenty_parallel_starts_three_get_through(limits: Settings) -> None:
    limits.BENCHMARK_INSTANCES = 3
    limits.BENCHMARK_INSTANCES_PER_REGION = 3
    jobs = [cloud_job() for _ in range(20)]
    begin = threading.Barrier(len(jobs))
    launched: list[BenchmarkJob] = []
    refused: list[str] = []
    errors: list[BaseException] = []

    def launch(job: BenchmarkJob) -> None:
        begin.wait()
        try:
            with transaction.atomic():
                reserved_usd = reserve(
                    job, region="us-east-1", usd_per_hour=Decimal(1), hours=Decimal(2)
                )
                create_instance(job=job, reserved_usd=reserved_usd)
            launched.append(job)
        except LimitReachedError as error:
            refused.append(error.message)
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=launch, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert errors == []
    assert (len(launched), len(refused)) == (3, 17)
    assert spending().live_instances == 3
    assert set(refused) == {"3 instances are live, as many as BENCHMARK_INSTANCES allows (3)."}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("lifetime", "cost"),
    [
        (timedelta(seconds=5), "0.051000"),
        (timedelta(seconds=61), "0.051850"),
        (timedelta(minutes=90), "4.590000"),
        (timedelta(hours=-3), "0.051000"),
    ],
)
def test_r20_cost_is_by_the_second_and_for_a_minute_at_least(
    clock: Any, lifetime: timedelta, cost: str
) -> None:
    instance = create_instance(
        usd_per_hour=Decimal("3.06"),
        state=State.TERMINATED,
        launched_at=NOON,
        terminated_at=NOON + lifetime,
    )

    assert settle(instance) == Decimal(cost)
    assert settle(instance) == Decimal(cost)
    assert CloudInstance.objects.get().cost_usd == Decimal(cost)


@pytest.mark.django_db
def test_r20_what_was_never_launched_cost_nothing(clock: Any) -> None:
    instance = create_instance(state=State.TERMINATED, launched_at=None, terminated_at=NOON)

    assert settle(instance) == 0
    assert cost_until(instance, NOON + timedelta(days=1)) == 0


@pytest.mark.django_db
def test_r20_spending_of_the_month(clock: Any) -> None:
    create_instance(region="a", usd_per_hour=Decimal("1.5"), reserved_usd=Decimal(3))
    create_instance(region="b", state=State.INTENDED, launched_at=None, reserved_usd=Decimal(4))
    ended = {"state": State.TERMINATED, "region": "a"}
    may = datetime(2026, 5, 1, tzinfo=UTC)
    create_instance(terminated_at=may, cost_usd=Decimal("0.25"), **ended)
    create_instance(terminated_at=may - timedelta(seconds=1), cost_usd=Decimal(50), **ended)

    now = spending()

    assert (now.live_instances, now.live_by_region) == (2, {"a": 1, "b": 1})
    assert (now.usd_per_hour, now.reserved_usd) == (Decimal("2.5"), Decimal(7))
    assert (now.spent_this_month_usd, now.left_this_month_usd) == (
        Decimal("0.25"),
        Decimal("92.75"),
    )


@pytest.mark.django_db
def test_r20_an_instance_that_outlives_its_reservation_counts_for_what_it_costs(
    clock: time_machine.Traveller,
) -> None:
    instance = create_instance(usd_per_hour=Decimal(1), reserved_usd=Decimal(2))
    clock.shift(timedelta(hours=5))

    assert spending().reserved_usd == 5
    assert job_cost_usd(instance.job) == 5


@pytest.mark.django_db
@pytest.mark.parametrize("state", [State.TERMINATED, State.LOST])
def test_r20_no_reservation_is_left_behind_by_a_worker_that_died(
    clock: time_machine.Traveller, state: str
) -> None:
    """Its instance's end is written, its cost is not: counted in full until settled."""
    instance = create_instance(
        state=state, terminated_at=NOON + timedelta(minutes=30), reserved_usd=Decimal(9)
    )
    clock.shift(timedelta(hours=1))
    assert (spending().reserved_usd, spending().spent_this_month_usd) == (0, 9)
    # It costs nothing any more, whenever somebody looks.
    assert job_cost_usd(instance.job) == Decimal("0.5")

    assert settle_open_books() == 1
    assert settle_open_books() == 0

    assert (spending().reserved_usd, spending().spent_this_month_usd) == (0, Decimal("0.5"))


@pytest.mark.django_db
def test_spending_costs_two_queries_however_many_instances_there_are(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    for _ in range(5):
        create_instance()

    with django_assert_num_queries(2):
        assert budget.spending().live_instances == 5
