"""Refreshing prices: what is added, kept, retired and said, and when nothing can be asked."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
import time_machine
from celery import current_app
from celery.schedules import crontab
from django.core.management import CommandError, call_command

from benchmarking.apps import BenchmarkingConfig
from benchmarking.models import Machine, Price
from benchmarking.prices import aws, tasks
from benchmarking.prices.refresh import known_regions, refresh_prices
from benchmarking.prices.source import MissingCredentialsError, Offer, PriceSourceError
from benchmarking.tests.factories import create_device, create_machine, create_price

pytestmark = pytest.mark.django_db

TODAY = datetime(2026, 11, 29, 12, tzinfo=UTC)
ON_DEMAND, SPOT = Price.Kind.ON_DEMAND, Price.Kind.SPOT


class FakeSource:
    """A cloud whose answers a test sets: offers by region and kind, or an error."""

    provider = "aws"
    regions: tuple[str, ...] = ("eu-west-1", "us-east-1", "us-east-2")

    def __init__(self) -> None:
        self.answers: dict[tuple[str, Price.Kind], list[Offer] | PriceSourceError] = {}
        self.asked: list[tuple[str, str, list[str]]] = []

    def set(
        self,
        region: str = "us-east-1",
        kind: Price.Kind = ON_DEMAND,
        source: str = "list 1",
        xlarge: str = "",
        xlarge2: str = "",
    ) -> None:
        """Offers by size, for example ``xlarge="0.5"``."""
        prices = {"g4dn.xlarge": xlarge, "g4dn.2xlarge": xlarge2}
        self.answers[region, kind] = [
            Offer(instance_type, region, kind, Decimal(price), source)
            for instance_type, price in prices.items()
            if price
        ]

    def list_offers(
        self, *, region: str, kind: Price.Kind, instance_types: Collection[str]
    ) -> list[Offer]:
        self.asked.append((region, kind.value, sorted(instance_types)))
        answer = self.answers[region, kind]
        if isinstance(answer, PriceSourceError):
            raise answer
        return answer


@pytest.fixture
def source() -> FakeSource:
    return FakeSource()


@pytest.fixture
def small() -> Machine:
    return _machine("xlarge")


@pytest.fixture
def large() -> Machine:
    return _machine("2xlarge")


def _machine(size: str, **values: Any) -> Machine:
    return create_machine(
        slug=f"aws-g4dn.{size}", instance_type=f"g4dn.{size}", device=create_device(), **values
    )


def quotations(machine: Machine) -> list[tuple[str, str, str]]:
    rows = machine.prices.order_by("as_of", "id")
    return [(row.as_of, f"{row.usd_per_hour.normalize():f}", row.source) for row in rows]


@time_machine.travel(TODAY, tick=False)
def test_a_changed_price_is_appended(source: FakeSource, small: Machine) -> None:
    create_price(machine=small, usd_per_hour="0.526", as_of="2026-11-20", source="old list")
    source.set(xlarge="0.600000")
    report = refresh_prices(source, regions=["us-east-1"], kinds=[ON_DEMAND])
    assert quotations(small) == [
        ("2026-11-20", "0.526", "old list"),
        ("2026-11-29", "0.6", "list 1"),
    ]
    assert report.added == [
        "aws-g4dn.xlarge us-east-1 on-demand: 0.600000 USD/h, was 0.526000 (2026-11-20)"
    ]
    assert source.asked == [("us-east-1", "on-demand", ["g4dn.xlarge"])]


def test_a_second_run_adds_nothing(source: FakeSource, small: Machine) -> None:
    source.set(xlarge="0.6")
    with time_machine.travel(TODAY, tick=False):
        first = refresh_prices(source, regions=["us-east-1"], kinds=[ON_DEMAND])
        second = refresh_prices(source, regions=["us-east-1"], kinds=[ON_DEMAND])
    assert (len(first.added), first.unchanged) == (1, 0)
    assert (second.added, second.unchanged) == ([], 1)
    assert len(quotations(small)) == 1


@pytest.mark.parametrize(("day", "rows"), [("2026-12-28", 1), ("2026-12-29", 2)])
def test_an_unchanged_price_is_confirmed_once_a_month(
    source: FakeSource, small: Machine, day: str, rows: int
) -> None:
    source.set(xlarge="0.6")
    with time_machine.travel(TODAY, tick=False):
        refresh_prices(source, regions=["us-east-1"], kinds=[ON_DEMAND])
    with time_machine.travel(datetime.fromisoformat(f"{day}T12:00+00:00"), tick=False):
        refresh_prices(source, regions=["us-east-1"], kinds=[ON_DEMAND])
    assert len(quotations(small)) == rows


@pytest.mark.parametrize("as_of", ["2025-06/2026", "", "2026-11", "2018/2019"])
@time_machine.travel(TODAY, tick=False)
def test_the_same_price_with_a_vaguer_date_is_confirmed(
    source: FakeSource, small: Machine, as_of: str
) -> None:
    create_price(machine=small, usd_per_hour="0.6", as_of=as_of)
    source.set(xlarge="0.6")
    assert len(refresh_prices(source, regions=["us-east-1"], kinds=[ON_DEMAND]).added) == 1
    assert quotations(small)[-1] == ("2026-11-29", "0.6", "list 1")


@time_machine.travel(TODAY, tick=False)
def test_spot_prices_of_one_day_follow_each_other(source: FakeSource, small: Machine) -> None:
    source.set(kind=SPOT, source="zone a, set 10:00", xlarge="0.2")
    refresh_prices(source, regions=["us-east-1"], kinds=[SPOT])
    source.set(kind=SPOT, source="zone b, set 11:00", xlarge="0.25")
    refresh_prices(source, regions=["us-east-1"], kinds=[SPOT])
    assert quotations(small) == [
        ("2026-11-29", "0.2", "zone a, set 10:00"),
        ("2026-11-29", "0.25", "zone b, set 11:00"),
    ]
    assert set(small.prices.values_list("kind", flat=True)) == {"spot"}


@time_machine.travel(TODAY, tick=False)
def test_two_prices_in_the_same_list_on_one_day_are_reported(
    source: FakeSource, small: Machine
) -> None:
    source.set(xlarge="0.6")
    refresh_prices(source, regions=["us-east-1"], kinds=[ON_DEMAND])
    source.set(xlarge="0.7")
    report = refresh_prices(source, regions=["us-east-1"], kinds=[ON_DEMAND])
    assert report.failed == [
        "us-east-1 on-demand: aws-g4dn.xlarge is 0.700000 USD/h now and was 0.600000 earlier "
        "today in the same list; the earlier price stays"
    ]
    assert quotations(small) == [("2026-11-29", "0.6", "list 1")]


@time_machine.travel(TODAY, tick=False)
def test_an_offer_that_vanished_is_retired_and_kept(
    source: FakeSource, small: Machine, large: Machine
) -> None:
    create_price(machine=large, as_of="2026-01-01")
    Machine.objects.filter(pk=large.pk).update(note="A note.")
    source.set(xlarge="0.6")
    report = refresh_prices(source, regions=["us-east-1"], kinds=[ON_DEMAND])
    large.refresh_from_db()
    small.refresh_from_db()
    assert (large.availability, small.availability) == ("retired", "current")
    assert large.note == "A note. Gone from the price list of us-east-1 on 2026-11-29."
    assert [as_of for as_of, _, _ in quotations(large)] == ["2026-01-01"]
    assert report.retired == ["aws-g4dn.2xlarge: gone from the list of us-east-1"]
    assert refresh_prices(source, regions=["us-east-1"], kinds=[ON_DEMAND]).retired == []


@time_machine.travel(TODAY, tick=False)
def test_what_is_still_offered_elsewhere_or_never_was_is_not_retired(
    source: FakeSource, small: Machine, large: Machine
) -> None:
    create_price(machine=large)
    never_priced = _machine("metal")
    elsewhere = _machine("4xlarge", region="eu-west-1")
    create_price(machine=elsewhere, region="eu-west-1")
    other_cloud = create_machine(provider="azure", region="us-east-1")
    create_price(machine=other_cloud)
    source.set(xlarge="0.6")
    source.set("us-east-2", xlarge2="0.8")
    report = refresh_prices(source, regions=["us-east-1", "us-east-2"], kinds=[ON_DEMAND])
    assert report.retired == []
    assert not Machine.objects.filter(availability="retired").exists()
    assert never_priced.prices.count() == 0


@time_machine.travel(TODAY, tick=False)
def test_spot_prices_retire_nothing(source: FakeSource, small: Machine, large: Machine) -> None:
    create_price(machine=large)
    source.set(kind=SPOT, xlarge="0.2")
    assert refresh_prices(source, regions=["us-east-1"], kinds=[SPOT]).retired == []


@time_machine.travel(TODAY, tick=False)
def test_a_retired_machine_that_is_listed_is_told_and_stays_retired(
    source: FakeSource, small: Machine
) -> None:
    Machine.objects.update(availability="retired")
    source.set(xlarge="0.6")
    report = refresh_prices(source, regions=["us-east-1"], kinds=[ON_DEMAND])
    assert report.offered_again == [
        "aws-g4dn.xlarge is retired here and listed again: set it to current in the admin if it "
        "can be rented"
    ]
    assert Machine.objects.get().availability == "retired"


@time_machine.travel(TODAY, tick=False)
def test_a_failing_region_keeps_its_prices_and_the_others_are_refreshed(
    source: FakeSource, small: Machine, large: Machine
) -> None:
    create_price(machine=small, region="us-east-2", as_of="2026-03-01")
    create_price(machine=large, region="us-east-2", as_of="2026-04-01")
    source.set(xlarge="0.6", xlarge2="0.8")
    source.answers["us-east-2", ON_DEMAND] = PriceSourceError("the answer was cut short")
    report = refresh_prices(source, kinds=[ON_DEMAND])
    assert len(report.added) == 2
    assert report.failed == [
        "us-east-2 on-demand: not refreshed, the answer was cut short; "
        "its 2 prices stay, the newest as of 2026-04-01"
    ]
    assert report.retired == []
    assert Price.objects.filter(region="us-east-2").count() == 2


@time_machine.travel(TODAY, tick=False)
def test_an_empty_list_is_a_failure_and_retires_nothing(source: FakeSource, small: Machine) -> None:
    create_price(machine=small, region="us-east-1")
    source.answers["us-east-1", ON_DEMAND] = []
    report = refresh_prices(source, regions=["us-east-1"], kinds=[ON_DEMAND])
    assert report.failed == [
        "us-east-1 on-demand: not refreshed, none of 1 known machines is listed; "
        "its 1 prices stay, the newest as of 2026-01-01"
    ]
    small.refresh_from_db()
    assert small.availability == "current"


def test_missing_credentials_stop_everything(source: FakeSource, small: Machine) -> None:
    source.answers["us-east-1", ON_DEMAND] = MissingCredentialsError("no keys")
    with pytest.raises(MissingCredentialsError):
        refresh_prices(source, regions=["us-east-1", "us-east-2"])
    assert len(source.asked) == 1
    assert Price.objects.count() == 0


def test_regions_are_those_that_machines_and_prices_name(small: Machine) -> None:
    create_price(machine=small, region="us-east-2")
    create_machine(provider="azure", region="eastus")
    _machine("4xlarge", region="")
    assert known_regions("aws") == ["us-east-1", "us-east-2"]


@pytest.fixture
def command_source(source: FakeSource, monkeypatch: pytest.MonkeyPatch) -> FakeSource:
    monkeypatch.setattr(
        "benchmarking.management.commands.refresh_prices.AwsPriceSource", lambda: source
    )
    return source


def run(*args: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("refresh_prices", *args, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


@time_machine.travel(TODAY, tick=False)
def test_the_command_tells_what_it_did(
    command_source: FakeSource, small: Machine, large: Machine
) -> None:
    create_price(machine=large, as_of="2026-01-01")
    command_source.set(xlarge="0.6")
    command_source.set(kind=SPOT, xlarge="0.2", source="spot")
    out, err = run()
    assert out.splitlines() == [
        "new: aws-g4dn.xlarge us-east-1 on-demand: 0.600000 USD/h",
        "new: aws-g4dn.xlarge us-east-1 spot: 0.200000 USD/h",
        "retired: aws-g4dn.2xlarge: gone from the list of us-east-1",
        "2 prices added, 0 unchanged, 1 machines retired",
    ]
    assert err == ""
    assert run("--kind", "spot")[0] == "0 prices added, 1 unchanged, 0 machines retired\n"


@time_machine.travel(TODAY, tick=False)
def test_the_command_exits_with_1_where_a_region_failed(
    command_source: FakeSource, small: Machine
) -> None:
    command_source.set(xlarge="0.6")
    command_source.answers["us-east-2", ON_DEMAND] = PriceSourceError("timed out")
    with pytest.raises(CommandError, match="1 price lists failed") as caught:
        run("--region", "us-east-1", "--region", "us-east-2", "--kind", "on-demand")
    assert caught.value.returncode == 1
    assert small.prices.count() == 1


def test_the_command_refuses_an_unknown_region(command_source: FakeSource) -> None:
    with pytest.raises(CommandError) as caught:
        run("--region", "us-esat-1")
    assert caught.value.returncode == 2
    assert str(caught.value).startswith("'us-esat-1' is no AWS region (did you mean us-east-1")
    assert command_source.asked == []


def test_the_command_says_in_one_line_that_there_are_no_credentials(
    monkeypatch: pytest.MonkeyPatch, small: Machine
) -> None:
    monkeypatch.setattr(
        "benchmarking.management.commands.refresh_prices.AwsPriceSource",
        lambda: aws.AwsPriceSource(_client_without_credentials),
    )
    with pytest.raises(CommandError) as caught:
        run()
    assert caught.value.returncode == 2
    assert str(caught.value) == (
        "AWS prices need credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
        "AWS_PROFILE."
    )


def _client_without_credentials(*args: Any, **kwargs: Any) -> Any:
    raise aws.NoCredentialsError()


@time_machine.travel(TODAY, tick=False)
def test_the_daily_task_refreshes(
    source: FakeSource, small: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.set(xlarge="0.6")
    source.set(kind=SPOT, xlarge="0.2", source="spot")
    monkeypatch.setattr(aws, "AwsPriceSource", lambda: source)
    tasks.refresh_prices_daily()
    assert small.prices.count() == 2


def test_the_daily_task_goes_on_without_credentials(
    small: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        aws, "AwsPriceSource", lambda source=aws.AwsPriceSource: source(_client_without_credentials)
    )
    with caplog.at_level("INFO", logger="benchmarking"):
        tasks.refresh_prices_daily()
    assert [record.message for record in caplog.records] == [
        "Prices stay as they are. AWS prices need credentials: set AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
    ]


def test_beat_runs_it_once_a_day_in_the_maintenance_queue() -> None:
    entry = tasks.BEAT_SCHEDULE["refresh-prices"]
    assert entry["task"] == "benchmarking.prices.tasks.refresh_prices_daily"
    assert entry["options"] == {"queue": "maintenance"}
    assert entry["schedule"] == crontab(hour=4, minute=17)
    assert tasks.refresh_prices_daily.name == entry["task"]


def test_a_worker_knows_the_task_that_beat_names() -> None:
    entry = BenchmarkingConfig.beat_schedule["refresh-prices"]
    assert entry is tasks.BEAT_SCHEDULE["refresh-prices"]
    assert entry["task"] in current_app.tasks
