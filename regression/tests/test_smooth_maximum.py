"""The slower of host and device."""

from __future__ import annotations

import numpy as np
import pytest

from regression.smooth_maximum import smooth_maximum


@pytest.mark.parametrize(
    ("host_ms", "device_ms", "expected_ms"),
    [(1, 100, 100), (100, 1, 100), (10, 10, 10 * 2**0.25), (0, 5, 5), (3, -2, 3), (0, 0, 1e-12)],
)
def test_the_slower_one_counts(host_ms: float, device_ms: float, expected_ms: float) -> None:
    both_ms = smooth_maximum(np.array([host_ms], float), np.array([device_ms], float))
    assert both_ms[0] == pytest.approx(expected_ms, rel=1e-6)
