"""The slower of host and device."""

from __future__ import annotations

import numpy as np
import pytest

from regression.smooth_maximum import smooth_maximum


def test_smooth_maximum() -> None:
    host, device = np.array([1.0, 1.0, 0.0, 100.0]), np.array([100.0, 1.0, 5.0, 1.0])
    assert smooth_maximum(host, device).tolist() == pytest.approx([100, 2**0.25, 5, 100], rel=1e-6)
