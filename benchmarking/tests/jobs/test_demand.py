"""What people ask for is counted without a write per request, and robots weigh little."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from pytest_django import DjangoAssertNumQueries, Settings

from benchmarking.jobs import demand
from benchmarking.jobs.demand import (
    MOST_OF_A_VISITOR,
    MOST_REMEMBERED,
    RequestCounter,
    forget_old_requests,
    note_requests,
    store_requests,
)
from benchmarking.models import Architecture, MeasurementRequest
from benchmarking.tests import factories

WISH = ("aws-p3.2xlarge", "resnet50")


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def counter(clock: Clock) -> RequestCounter:
    return RequestCounter(clock)


def test_counts_are_sent_once_a_minute(counter: RequestCounter, clock: Clock) -> None:
    assert counter.note([WISH], "ann") == []
    assert counter.note([WISH], "bob") == []
    clock.seconds = 60.0

    assert counter.note([("local", "vgg16")], "ann") == [(*WISH, 2), ("local", "vgg16", 1)]
    clock.seconds = 200.0
    assert counter.note([], "ann") == []


def test_a_visitor_counts_once_an_hour(counter: RequestCounter, clock: Clock) -> None:
    for minute in range(59):
        clock.seconds = 60.0 * minute
        sent = counter.note([WISH], "ann")
        assert sent == ([] if minute != 1 else [(*WISH, 1)])
    clock.seconds = 3600.0

    assert counter.note([WISH], "ann") == [(*WISH, 1)]


def test_a_robot_that_asks_for_everything_counts_for_a_few(
    counter: RequestCounter, clock: Clock
) -> None:
    for number in range(500):
        counter.note([("aws-p3.2xlarge", f"cnn{number}")], "robot")
    clock.seconds = 60.0

    assert len(counter.note([], "ann")) == MOST_OF_A_VISITOR


def test_many_robots_do_not_fill_the_memory(counter: RequestCounter, clock: Clock) -> None:
    for number in range(MOST_REMEMBERED + 500):
        counter.note([WISH], f"robot {number}")
    clock.seconds = 60.0

    assert counter.note([], "ann") == [(*WISH, MOST_REMEMBERED)]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> list[Any]:
    messages: list[Any] = []

    class Thread:
        def __init__(self, args: tuple[Any], **_: Any) -> None:
            self.args = args

        def start(self) -> None:
            messages.append(*self.args)

    monkeypatch.setattr(demand.threading, "Thread", Thread)
    monkeypatch.setattr(demand, "_counter", RequestCounter(clock))
    clock.seconds = 60.0
    return messages


def test_only_allowed_machines_count(sent: list[Any], settings: Settings) -> None:
    settings.AUTOMATIC_BENCHMARKS = True
    settings.AUTOMATIC_BENCHMARK_MACHINES = ["aws-p3.2xlarge"]

    note_requests(["local"], ["resnet50"], visitor="ann")
    assert sent == []
    note_requests(["local", "aws-p3.2xlarge"], ["resnet50", "vgg16"], visitor="ann")

    assert sent == [[(*WISH, 1), ("aws-p3.2xlarge", "vgg16", 1)]]


def test_nothing_is_counted_where_it_is_off(sent: list[Any], settings: Settings) -> None:
    settings.AUTOMATIC_BENCHMARKS = False
    settings.AUTOMATIC_BENCHMARK_MACHINES = ["aws-p3.2xlarge"]

    note_requests(["aws-p3.2xlarge"], ["resnet50"], visitor="ann")

    assert sent == []


def test_a_broker_that_is_away_harms_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any) -> None:
        raise ConnectionError("no broker")

    monkeypatch.setattr("benchmarking.tasks.collect_requests.delay", fail)

    demand._send([(*WISH, 1)])

    assert "what people asked for was not counted: ConnectionError('no broker')" in caplog.text


@pytest.mark.django_db
def test_counts_add_up_at_the_usual_image_size(settings: Settings) -> None:
    settings.AUTOMATIC_BENCHMARK_MACHINES = ["aws-p3.2xlarge"]
    machine = factories.create_machine(slug="aws-p3.2xlarge")
    factories.create_machine(slug="aws-other")
    for size in (192, 224):
        factories.create_architecture(slug="resnet50", image_size=size)
    factories.create_architecture(slug="own-secret", image_size=224, source=Architecture.UPLOADED)
    counts = [
        (*WISH, 2),
        ("aws-p3.2xlarge", "own-secret", 9),
        ("aws-p3.2xlarge", "no-such-cnn", 9),
        ("aws-other", "resnet50", 9),
    ]

    assert store_requests(counts) == 1
    assert store_requests([(*WISH, 3)]) == 1

    request = MeasurementRequest.objects.get()
    assert (request.machine, request.architecture.image_size) == (machine, 224)
    assert request.request_count == 5


@pytest.mark.django_db
def test_old_wishes_are_forgotten() -> None:
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    for days in (29, 31):
        MeasurementRequest.objects.create(
            machine=factories.create_machine(),
            architecture=factories.create_architecture(),
            last_requested_at=noon - timedelta(days=days),
        )

    with time_machine.travel(noon, tick=False):
        assert forget_old_requests() == 1


@pytest.mark.django_db
def test_a_request_costs_no_query(
    settings: Settings, sent: list[Any], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    settings.AUTOMATIC_BENCHMARKS = True
    settings.AUTOMATIC_BENCHMARK_MACHINES = ["aws-p3.2xlarge"]

    with django_assert_num_queries(0):
        note_requests(["aws-p3.2xlarge"], ["resnet50"], visitor="ann")
    assert len(sent) == 1
