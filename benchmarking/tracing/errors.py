"""What can go wrong when a network is traced; free of torch."""

from __future__ import annotations


class UntraceableError(ValueError):
    """The network cannot train on this input; the message is one sentence that says why."""


class FixtureError(ValueError):
    """A file of traced networks is unreadable or wrong; the message names the place."""
