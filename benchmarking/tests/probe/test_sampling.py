"""How many samples a timing gets, with the same code for a CPU and a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from benchmarking.probe.probe import Sampling
from benchmarking.tests.probe.test_timers import FakeDevice


class FakeTimer:
    """Every call takes ``call_ms`` of a clock that nothing else moves."""

    def __init__(self, call_ms: float) -> None:
        self.call_ms = call_ms
        self.now_seconds = 0.0
        self.counts: list[int] = []
        self.host_bound: list[bool] = []

    def clock(self) -> float:
        return self.now_seconds

    def sample(
        self, runs: Mapping[str, Callable[[], None]], count: int, host_bound: bool = False
    ) -> dict[str, list[float]]:
        self.counts.append(count)
        self.host_bound.append(host_bound)
        self.now_seconds += count * len(runs) * self.call_ms / 1000
        return {name: [self.call_ms] * count for name in runs}


def collect(timer: FakeTimer, **options: float) -> dict[str, list[float]]:
    runs = {"forward": lambda: None}
    return Sampling(**options).collect(timer, runs, clock=timer.clock)


def test_warm_up_calls_are_not_among_the_samples() -> None:
    timer = FakeTimer(call_ms=1.0)

    samples = collect(timer, warmup=3, repeats=10)

    assert timer.counts == [3, 10]
    assert samples == {"forward": [1.0] * 10}


def test_short_computations_are_repeated_until_they_add_up() -> None:
    timer = FakeTimer(call_ms=2.0)

    samples = collect(timer, warmup=1, repeats=2, maximum_repeats=12, minimum_ms=15.0)

    assert len(samples["forward"]) == 8


def test_repeats_end_at_their_maximum() -> None:
    timer = FakeTimer(call_ms=0.01)

    samples = collect(timer, warmup=1, repeats=2, maximum_repeats=12, minimum_ms=15.0)

    assert len(samples["forward"]) == 12


def test_what_takes_longer_than_its_time_keeps_one_sample() -> None:
    timer = FakeTimer(call_ms=40_000.0)

    samples = collect(timer, warmup=1, repeats=5, item_seconds=60.0)

    assert samples == {"forward": [40_000.0]}


def test_what_takes_long_stops_when_its_time_is_over() -> None:
    timer = FakeTimer(call_ms=10_000.0)

    samples = collect(timer, warmup=1, repeats=10, item_seconds=45.0)

    # The warm-up and four samples: the next one would begin after 50 seconds.
    assert len(samples["forward"]) == 4


def test_no_warm_up_is_allowed() -> None:
    assert collect(FakeTimer(call_ms=1.0), warmup=0, repeats=2) == {"forward": [1.0, 1.0]}


@pytest.mark.parametrize("host_bound", [True, False])
def test_warm_up_and_samples_are_taken_alike(host_bound: bool) -> None:
    timer = FakeTimer(call_ms=1.0)

    Sampling(warmup=2, repeats=3).collect(
        timer, {"iteration": lambda: None}, host_bound, clock=timer.clock
    )

    assert timer.host_bound == [host_bound, host_bound]


def test_warm_up_on_a_device_ends_before_the_first_sample_begins() -> None:
    device = FakeDevice()

    Sampling(warmup=2, repeats=1).collect(
        device.timer(), {"forward": lambda: device.log.append("run")}, clock=lambda: 0.0
    )

    first_sample = device.log.index("run", device.log.index("read"))
    assert device.log[:first_sample].count("run") == 2
    assert device.log[first_sample - 4 : first_sample] == [
        "read",
        "synchronize",
        "head start",
        "record",
    ]
