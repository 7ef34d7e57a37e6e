"""Files of a small network, and the requests that send them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.cache import caches
from django.core.files.uploadedfile import SimpleUploadedFile

from benchmarking.onnx_import.reader import read_onnx
from benchmarking.tests.onnx_import.graphs import small_network
from benchmarking.tracing.fixture import format_traced_networks
from predictions.throttling import COUNTS
from predictions.uploads.models import OwnNetwork
from predictions.uploads.services import upload_network


def onnx_file(name: str = "my net.onnx") -> SimpleUploadedFile:
    """Convolution, BatchNorm, ReLU, pooling and ten classes at 32 px."""
    return SimpleUploadedFile(name, small_network())


def trace_text() -> str:
    """The same network as the tracer writes it."""
    network = read_onnx(small_network(), slug="traced-net")
    return format_traced_networks([network], source="own")


@pytest.fixture(autouse=True)
def nobody_has_sent_anything_yet():
    """Throttles count in a cache that tests share."""
    caches[COUNTS].clear()


@pytest.fixture
def upload(catalogue) -> Callable[..., OwnNetwork]:
    """Upload the small network."""

    def send(**options) -> OwnNetwork:
        return upload_network(onnx_file(), **options)

    return send
