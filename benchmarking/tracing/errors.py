"""What can go wrong when a network is traced; free of torch."""

from __future__ import annotations


class TracingError(ValueError):
    """A request or a file that cannot be used; the message is one line that says why."""


class UntraceableError(TracingError):
    """The network cannot train on this input; the message is one sentence that says why."""


class FixtureError(TracingError):
    """A file of traced networks is unreadable or wrong; the message names the place."""
