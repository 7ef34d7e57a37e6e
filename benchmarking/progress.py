"""A progress bar on standard error, with the time left; silent where nobody watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

BAR_CHARACTERS = 24


class ProgressBar:
    """Draws one line on a terminal and redraws it in place.

    Parameters
    ----------
    total
        Steps until the end.
    unit
        What a step is, in the plural.
    enabled
        Whether to draw at all; a stream that is no terminal gets nothing in any case.
    expected_seconds
        Time left is counted from this until a share of the steps tells it better.
    stream, clock
        Replaced by tests.
    """

    def __init__(
        self,
        *,
        total: int,
        unit: str,
        enabled: bool = True,
        expected_seconds: float | None = None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = total
        self.unit = unit
        self.expected_seconds = expected_seconds
        self._stream = stream if stream is not None else sys.stderr
        self._enabled = enabled and self._stream.isatty()
        self._clock = clock
        self._started = clock()
        self._drawn_characters = 0

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Take the line off the terminal, for something else to be written there."""
        if self._drawn_characters:
            self._stream.write("\r" + " " * self._drawn_characters + "\r")
            self._stream.flush()
            self._drawn_characters = 0

    def update(self, done: int, description: str = "") -> None:
        """Show that ``done`` steps are finished and what is under way."""
        if not self._enabled:
            return
        text = self.line(done, description)
        self._stream.write("\r" + text.ljust(self._drawn_characters))
        self._stream.flush()
        self._drawn_characters = len(text)

    def line(self, done: int, description: str = "") -> str:
        """The text of the bar."""
        share = min(1.0, done / self.total) if self.total else 1.0
        filled = round(share * BAR_CHARACTERS)
        bar = "#" * filled + "-" * (BAR_CHARACTERS - filled)
        parts = [f"[{bar}] {done}/{self.total} {self.unit}"]
        seconds_left = self.seconds_left(done)
        if seconds_left is not None:
            parts.append(f"{format_duration(seconds_left)} left")
        if description:
            parts.append(description)
        return " · ".join(parts)[:119]

    def seconds_left(self, done: int) -> float | None:
        """Time left at the pace so far, mixed with what was expected while little is done."""
        return seconds_left(
            done=done,
            total=self.total,
            elapsed_seconds=self._clock() - self._started,
            expected_seconds=self.expected_seconds,
        )


def seconds_left(
    *, done: int, total: int, elapsed_seconds: float, expected_seconds: float | None
) -> float | None:
    """Time left at the pace so far, mixed with what was expected while little is done.

    ``None`` while nothing is done and nothing was expected.
    """
    share = min(1.0, done / total) if total else 1.0
    by_expectation = (
        None if expected_seconds is None else max(0.0, expected_seconds - elapsed_seconds)
    )
    if done == 0:
        return by_expectation
    by_pace = elapsed_seconds * (1 - share) / share
    if by_expectation is None:
        return by_pace
    return share * by_pace + (1 - share) * by_expectation


def format_duration(seconds: float) -> str:
    """A duration as people say it: ``45 s``, ``12 min``, ``3 h 05 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"
