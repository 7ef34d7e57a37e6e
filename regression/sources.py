"""Where a forecast's iteration time comes from; every number that is shown carries one."""

from __future__ import annotations

from enum import StrEnum


class Source(StrEnum):
    """Origin of an iteration time, best first.

    ``measured``: this iteration was timed on this machine. ``benchmark+regression``: all its
    convolution layers were timed on this device, the remainder is regressed. ``interpolated``:
    its neighbours in batch size are known. ``estimated``: none of these.
    """

    MEASURED = "measured"
    REGRESSED = "benchmark+regression"
    INTERPOLATED = "interpolated"
    ESTIMATED = "estimated"
