"""Measured timings, and what counts requests set back to zero."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.core.cache import caches

from benchmarking.models import Machine, MeasurementRun
from benchmarking.tests.factories import create_architecture, create_run, create_timings
from predictions.throttling import COUNTS


@pytest.fixture(autouse=True)
def nobody_has_asked_yet():
    """Throttles count in a cache that tests share."""
    caches[COUNTS].clear()


@pytest.fixture
def run(catalogue: dict[str, Machine]) -> MeasurementRun:
    """A small CNN measured on the T4 at batch sizes 1 and 2: 1 ms per example for each pass."""
    run = create_run(
        machine=catalogue["aws-g4dn.xlarge"], started_at=datetime(2026, 3, 1, 12, tzinfo=UTC)
    )
    create_timings(run=run, architecture=create_architecture(slug="tinynet"), batch_sizes=(1, 2))
    return run
