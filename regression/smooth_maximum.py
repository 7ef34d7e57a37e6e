"""Two things at once, of which the slower one counts: a device computes while its host launches."""

from __future__ import annotations

import numpy as np

from regression.features import FloatArray

SMOOTH_MAXIMUM_POWER = 4
"""Exponent of ``(host^p + device^p)^(1/p)``: within 19 % of the larger where both are equal."""


def smooth_maximum(host_ms: FloatArray, device_ms: FloatArray) -> FloatArray:
    """``(host^4 + device^4)^(1/4)``: the slower of the two, rounded where they are equal."""
    power = SMOOTH_MAXIMUM_POWER
    larger = np.maximum(np.maximum(host_ms, device_ms), 1e-12)
    ratios = (host_ms / larger) ** power + (np.maximum(device_ms, 0) / larger) ** power
    return np.asarray(larger * ratios ** (1 / power))
