"""The progress bar and its time left."""

from __future__ import annotations

import io

import pytest

from benchmarking.progress import ProgressBar, format_duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_bar_tells_share_time_left_and_what_is_under_way() -> None:
    clock = Clock()
    bar = ProgressBar(total=40, unit="timings", clock=clock, stream=Terminal())
    clock.now += 60

    assert bar.line(10, "resnet50 x 16") == (
        "[######------------------] 10/40 timings · 3 min left · resnet50 x 16"
    )


def test_time_left_starts_from_what_was_expected() -> None:
    clock = Clock()
    bar = ProgressBar(
        total=10, unit="timings", expected_seconds=100.0, clock=clock, stream=Terminal()
    )
    clock.now += 20

    assert bar.seconds_left(0) == 80.0
    # Half by the pace so far (20 s), half by what was expected (80 s).
    assert bar.seconds_left(5) == pytest.approx(50.0)
    assert bar.seconds_left(10) == 0.0


def test_nothing_is_known_of_the_time_before_the_first_step() -> None:
    bar = ProgressBar(total=10, unit="files", stream=Terminal())

    assert bar.seconds_left(0) is None
    assert bar.line(0) == "[------------------------] 0/10 files"


def test_bar_draws_over_itself_and_goes_away() -> None:
    terminal = Terminal()
    with ProgressBar(total=2, unit="files", stream=terminal, clock=lambda: 0.0) as bar:
        bar.update(1, "a long description")
        bar.update(2)

    first, second, blank, end = terminal.getvalue().split("\r")[1:]
    assert first.endswith("a long description")
    assert len(second) == len(first)
    assert (blank.strip(), end) == ("", "")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_bar_is_silent_where_nobody_watches(stream: io.StringIO) -> None:
    with ProgressBar(total=2, unit="files", stream=stream, enabled=not stream.isatty()) as bar:
        bar.update(1)

    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5300, "88 min"), (7500, "2 h 05 min")],
)
def test_durations_read_as_people_say_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
