"""Two things at once, of which the slower one counts: a device computes while its host launches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SMOOTH_MAXIMUM_POWER = 4.0
"""Exponent of ``(host^p + device^p)^(1/p)``: within 19 % of the larger where both are equal."""

_SMALLEST_MS = 1e-12
"""Nothing takes no time: its logarithm exists."""


def smooth_maximum(
    host_ms: NDArray[np.float64], device_ms: NDArray[np.float64]
) -> NDArray[np.float64]:
    """``(host^4 + device^4)^(1/4)``: the slower of the two, rounded where they are equal.

    Arrays of one shape; a device time below zero, which a fit may pass through, counts as zero.
    """
    power = SMOOTH_MAXIMUM_POWER
    total = np.maximum(device_ms, 0.0) ** power + host_ms**power
    return np.asarray(np.maximum(total ** (1.0 / power), _SMALLEST_MS))
