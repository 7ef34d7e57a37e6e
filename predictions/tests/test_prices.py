"""Which price counts."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from benchmarking.models import Machine, Price
from predictions.prices import choose_price, latest_date, region_for


@pytest.mark.parametrize(
    ("as_of", "day"),
    [
        ("2026-08-17", date(2026, 8, 17)),
        ("2026-04", date(2026, 4, 30)),
        ("2018/2019", date(2019, 12, 31)),
        ("2025-06/2026", date(2026, 12, 31)),
        ("after 2025-06", date(2025, 6, 30)),
        ("", None),
        ("long ago", None),
        ("2026-13-01", None),
    ],
)
def test_latest_date(as_of, day):
    assert latest_date(as_of) == day


def price(usd: str, **values) -> Price:
    defaults = {
        "kind": "on-demand",
        "region": "us-east-1",
        "currency": "USD",
        "as_of": "2026-01-01",
        "source": "list",
        "notional": False,
        "recorded_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return Price(usd_per_hour=Decimal(usd), **{**defaults, **values})


def chosen(*prices: Price) -> Decimal | None:
    found = choose_price(prices, "on-demand", "us-east-1")
    return found.usd_per_hour if found else None


def test_the_newest_date_wins_not_the_last_recorded():
    old = price("1", as_of="2019", recorded_at=datetime(2026, 5, 1, tzinfo=UTC))
    assert chosen(old, price("2", as_of="2026-01-01")) == 2


def test_of_one_date_the_last_recorded_wins():
    late = price("2", recorded_at=datetime(2026, 5, 1, tzinfo=UTC))
    assert chosen(late, price("1")) == 2


def test_a_dated_price_comes_before_an_undated_one():
    undated = price("1", as_of="", recorded_at=datetime(2026, 5, 1, tzinfo=UTC))
    assert chosen(undated, price("2", as_of="2018")) == 2


def test_a_real_price_comes_before_a_notional_one():
    assert chosen(price("1", notional=True, as_of="2026-12-01"), price("2", as_of="2018")) == 2


@pytest.mark.parametrize("other", [{"kind": "spot"}, {"region": "eu-west-1"}, {"currency": "EUR"}])
def test_other_kinds_regions_and_currencies_do_not_count(other):
    assert chosen(price("1", **other)) is None


def test_a_provider_without_the_asked_region_gives_its_own():
    machine = Machine(slug="azure-x", region="eastus")
    assert region_for(machine, "us-east-1", {"eastus", "westus"}) == "eastus"
    assert region_for(machine, "westus", {"eastus", "westus"}) == "westus"
    assert region_for(Machine(slug="x", region=""), "us-east-1", set()) == "us-east-1"
