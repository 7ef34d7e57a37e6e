"""Prices over time: what is drawn, and what stands in words."""

from __future__ import annotations

import pytest

from benchmarking.models import Machine, Price
from benchmarking.tests.factories import create_machine, create_price
from predictions.catalogue_pages import newest_quotations
from predictions.price_chart import PriceHistory, make_price_history

pytestmark = pytest.mark.django_db


@pytest.fixture
def machine() -> Machine:
    return create_machine()


def quote(machine: Machine, usd: str, day: str, **values: object) -> Price:
    return create_price(machine=machine, usd_per_hour=usd, as_of=day, **values)


def history_of(machine: Machine) -> PriceHistory:
    return make_price_history(newest_quotations(machine))


def test_a_price_that_fell(machine):
    quote(machine, "32.7726", "2025-01/2025-05")
    quote(machine, "21.957642", "2026-08-17")
    history = history_of(machine)
    assert history.summary == (
        "On demand in us-east-1: $32.7726 (2025-01/2025-05), then $21.957642 (2026-08-17), "
        "33 % less."
    )
    (line,) = history.chart.figure["data"]
    assert line["x"] == ["2025-01-01", "2026-08-17"]
    assert line["y"] == [32.7726, 21.957642]
    assert line["line"]["shape"] == "hv"
    assert [price.as_of for price in history.quotations] == ["2026-08-17", "2025-01/2025-05"]


def test_u8_on_demand_and_spot_differ_by_dash_and_marker_and_not_by_colour_alone(machine):
    for kind in ("on-demand", "spot"):
        quote(machine, "1", "2026-01-01", kind=kind)
        quote(machine, "2", "2026-02-01", kind=kind)
    history = history_of(machine)
    on_demand, spot = history.chart.figure["data"]
    assert (on_demand["line"]["dash"], on_demand["marker"]["symbol"]) == ("solid", "circle")
    assert (spot["line"]["dash"], spot["marker"]["symbol"]) == ("dash", "diamond")
    assert [entry.label for entry in history.legend] == [
        "on demand, us-east-1",
        "spot, us-east-1",
    ]
    assert [entry.is_spot for entry in history.legend] == [False, True]


def test_hovering_says_price_and_date_of_each_point(machine):
    quote(machine, "1.5", "2018/2019", notional=True)
    quote(machine, "2", "2026-02-01")
    history = history_of(machine)
    number = history.chart.figure["data"][0]["text"]
    assert history.figures["hover"][number] == [
        "$1.50 an hour, notional\nas of 2018/2019",
        "$2.00 an hour\nas of 2026-02-01",
    ]
    assert history.figures["charts"]["prices"] == history.chart.figure


def test_a_price_that_stayed_and_one_quoted_once_beside_it(machine):
    quote(machine, "3.06", "2018/2019")
    quote(machine, "3.06", "2026-04")
    quote(machine, "1", "2026-04", kind="spot", region="us-east-2")
    quote(machine, "9", "")
    assert history_of(machine).summary == (
        "On demand in us-east-1: $3.06 from 2018/2019 to 2026-04. "
        "Spot in us-east-2: $1.00, quoted once (2026-04). "
        "1 quotation without a date in the table only."
    )


def test_many_regions_are_counted_in_the_words(machine):
    for number in range(6):
        for day in ("2026-01-01", "2026-02-01"):
            quote(machine, "1", day, region=f"us-east-{number}")
    history = history_of(machine)
    assert history.summary.endswith("2 more lines are in the legend.")
    assert len(history.legend) == len(history.chart.figure["data"]) == 6


@pytest.mark.parametrize(
    ("quotations", "words"),
    [
        (
            [("0.53", "2026-08-17", "on-demand")],
            "$0.53 an hour on demand in us-east-1, as of 2026-08-17: the only day",
        ),
        (
            [("1", "2026-01", "on-demand"), ("1", "2026-01-01", "on-demand")],
            "$1.00 an hour on demand in us-east-1, as of 2026-01",
        ),
        (
            [("1", "2026-01", "on-demand"), ("0.5", "2026-02", "spot")],
            "Each kind and region was quoted on one day only",
        ),
        ([("1", "", "on-demand")], "1 quotation without a date"),
    ],
    ids=["one", "one day", "one of each kind", "undated"],
)
def test_without_two_days_there_is_no_chart_and_words_say_why(machine, quotations, words):
    for usd, day, kind in quotations:
        quote(machine, usd, day, kind=kind)
    history = history_of(machine)
    assert history.chart is None
    assert history.figures == {}
    assert history.summary.startswith(words)
    assert len(history.quotations) == len(quotations)
