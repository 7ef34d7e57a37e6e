"""R25: the oldest due job, beat's age, live instances and money are numbers to watch."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import DjangoAssertNumQueries, Settings

from benchmarking.jobs.metrics import beat, job_health, metrics_text
from benchmarking.models import Heartbeat
from benchmarking.tests import factories

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 5, 10, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


def numbers() -> dict[str, float]:
    """Each sample by its name, with the value of its label behind it."""
    return {
        " ".join([sample.name.removeprefix("epochcast_"), *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(metrics_text().decode())
        for sample in family.samples
    }


def test_r25_metrics_of_an_installation_at_rest(settings: Settings) -> None:
    settings.BENCHMARK_USD_PER_MONTH = Decimal(25)
    settings.BENCHMARK_USD_PER_HOUR = Decimal("7.5")

    assert numbers() == {
        "oldest_due_job_seconds": 0.0,
        "beat_age_seconds": float("inf"),
        "benchmarks_enabled": 1.0,
        "live_instances": 0.0,
        "live_instances_limit": 2.0,
        "usd_per_hour": 0.0,
        "usd_per_hour_limit": 7.5,
        "reserved_usd": 0.0,
        "spent_this_month_usd": 0.0,
        "usd_per_month_limit": 25.0,
        "unfinished_terminations": 0.0,
        "expired_instances": 0.0,
        "wrong_automatic_machines": 0.0,
        **{
            f"jobs {state}": 0.0
            for state in (
                "queued",
                "launching",
                "waiting_capacity",
                "booting",
                "running",
                "collecting",
                "cleaning",
                "succeeded",
                "failed",
                "cancelled",
            )
        },
    }


def test_r25_metrics_of_jobs_instances_and_money(clock: time_machine.Traveller) -> None:
    machine = factories.create_machine()
    factories.create_job(machine=machine, due_at=NOON - timedelta(minutes=3))
    factories.create_job(machine=machine, due_at=NOON + timedelta(minutes=3))
    factories.create_job(machine=machine, state="failed", due_at=NOON - timedelta(days=3))
    factories.create_instance(
        job=factories.create_job(machine=machine, state="running", due_at=NOON),
        region="us-east-1",
        usd_per_hour=Decimal("3.06"),
        reserved_usd=Decimal("4.59"),
    )
    factories.create_instance(
        job=factories.create_job(machine=machine, state="cleaning", due_at=NOON),
        state="terminating",
        region="eu-west-1",
        usd_per_hour=Decimal("0.5"),
        reserved_usd=Decimal(1),
        terminate_asked_at=NOON - timedelta(minutes=11),
        expires_at=NOON - timedelta(seconds=1),
    )
    factories.create_instance(
        state="terminated",
        cost_usd=Decimal("1.25"),
        terminated_at=NOON,
        job=factories.create_job(machine=machine, state="cancelled"),
    )
    beat()
    clock.shift(40)

    found = numbers()

    assert found["oldest_due_job_seconds"] == 220.0
    assert found["beat_age_seconds"] == 40.0
    assert (found["jobs queued"], found["jobs failed"], found["jobs running"]) == (2.0, 1.0, 1.0)
    assert found["live_instances"] == 2.0
    assert found["live_instances_by_region us-east-1"] == 1.0
    assert found["live_instances_by_region eu-west-1"] == 1.0
    assert found["usd_per_hour"] == 3.56
    assert found["reserved_usd"] == 5.59
    assert found["spent_this_month_usd"] == 1.25
    assert found["unfinished_terminations"] == 1.0
    assert found["expired_instances"] == 1.0


def test_r25_beat_is_one_row(clock: time_machine.Traveller) -> None:
    beat()
    clock.shift(15)
    beat()

    assert Heartbeat.objects.get().at == NOON + timedelta(seconds=15)


def test_r25_a_scrape_costs_the_same_whatever_is_there(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    for _ in range(10):
        factories.create_instance()

    with django_assert_num_queries(6):
        assert job_health().spending.live_instances == 10
