"""EC2 played on this machine, with settings that lead there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import SettingsWrapper

from benchmarking.tests.cloud.front import CloudFront


@pytest.fixture(scope="session")
def _served_front() -> Iterator[CloudFront]:
    with CloudFront() as front:
        yield front


@pytest.fixture
def front(
    _served_front: CloudFront, settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CloudFront]:
    """An empty EC2; whatever a test leaves running is ended after it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "played")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "played")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    settings.EC2_ENDPOINT_URL = _served_front.url
    yield _served_front
    _served_front.on_launch = _served_front.on_end = None
    _served_front.reset()
