"""Which price counts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from benchmarking.catalogue.selectors import newest_prices
from benchmarking.models import Machine
from benchmarking.tests.factories import create_device, create_machine, create_price

pytestmark = pytest.mark.django_db


def newest(machine: Machine, kind: str = "on-demand", region: str = "us-east-1") -> str | None:
    price = newest_prices([machine.pk], kind, region).get(machine.pk)
    return None if price is None else price.as_of


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        (["2018/2019", "2026-04", "2025-06/2026"], "2026-04"),
        (["2026-08-17", "2026-08-26", "2026-08"], "2026-08-26"),
        (["", "2018/2019"], "2018/2019"),
        (["2026-08-17", ""], "2026-08-17"),
        (["2025-06/2026", "2025-12-31"], "2025-12-31"),
        (["2025-01/2025-05", "2025-06/2026"], "2025-06/2026"),
        ([""], ""),
    ],
)
def test_the_newest_date_counts_and_a_period_from_its_first_day(
    dates: list[str], expected: str
) -> None:
    machine = create_machine()
    for as_of in dates:
        create_price(machine=machine, as_of=as_of)
    assert newest(machine) == expected


def test_of_one_date_the_price_recorded_last_counts() -> None:
    machine = create_machine()
    now = timezone.now()
    create_price(machine=machine, usd_per_hour="1.5", recorded_at=now)
    create_price(machine=machine, usd_per_hour="2.5", recorded_at=now + timedelta(hours=1))
    create_price(machine=machine, usd_per_hour="3.5", recorded_at=now - timedelta(hours=1))
    price = newest_prices([machine.pk], "on-demand", "us-east-1")[machine.pk]
    assert price.usd_per_hour == Decimal("2.5")


def test_kinds_are_kept_apart() -> None:
    machine = create_machine()
    create_price(machine=machine, as_of="2026-01-01")
    create_price(machine=machine, as_of="2025-01-01", kind="spot")
    assert newest(machine, kind="spot") == "2025-01-01"
    assert newest(machine) == "2026-01-01"


def test_no_price_is_known() -> None:
    assert newest_prices([create_machine().pk], "on-demand", "us-east-1") == {}
    assert newest_prices([], "on-demand", "us-east-1") == {}


def test_a_machine_of_aws_is_priced_in_the_region_asked_or_not_at_all() -> None:
    machine = create_machine()
    create_price(machine=machine, region="us-east-1", as_of="2026-01-01")
    create_price(machine=machine, region="us-east-2", as_of="2026-02-01")
    assert newest(machine, region="us-east-2") == "2026-02-01"
    assert newest(machine, region="eu-west-1") is None


def test_a_machine_of_another_cloud_is_priced_in_its_own_region() -> None:
    azure = create_machine(provider="azure", region="eastus")
    create_price(machine=azure, region="eastus", as_of="2026-03-01")
    create_price(machine=azure, region="westeurope", as_of="2026-04-01")
    assert newest(azure, region="us-east-1") == "2026-03-01"
    assert newest(azure, region="westeurope") == "2026-04-01"


def test_a_machine_without_a_price_in_a_region_of_its_cloud_has_none_there() -> None:
    first = create_machine(provider="azure", region="eastus")
    second = create_machine(provider="azure", region="eastus")
    create_price(machine=first, region="westeurope")
    create_price(machine=second, region="eastus")
    assert newest(second, region="westeurope") is None
    assert newest(second, region="eastus") == "2026-01-01"


def test_many_machines_take_one_query(
    django_assert_num_queries: Callable[..., Any],
) -> None:
    device = create_device()
    machines = [create_machine(device=device) for _ in range(60)]
    for machine in machines:
        for month in range(1, 6):
            create_price(machine=machine, as_of=f"2026-0{month}-01", usd_per_hour=f"{month}.0")
    with django_assert_num_queries(1):
        prices = newest_prices([machine.pk for machine in machines], "on-demand", "us-east-1")
    assert {price.usd_per_hour for price in prices.values()} == {Decimal("5")}
    assert set(prices) == {machine.pk for machine in machines}
