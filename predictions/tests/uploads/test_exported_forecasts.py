"""ONNX exports of torchvision's networks are forecast as their traces are.

Both are uploaded, so that neither has measured iterations of its own: what differs is only what
the graph says and what tracing says.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torchvision", reason="torchvision is not installed")

from benchmarking.tests.onnx_import.test_exports import IMAGE_SIZE, SLUGS, exported, traced
from benchmarking.tracing.fixture import format_traced_networks
from predictions.forecast import load_choices, make_forecast
from predictions.query import parse_query
from predictions.rows import ForecastRow
from predictions.uploads.models import OwnNetwork
from predictions.uploads.services import upload_network

pytestmark = [pytest.mark.torch, pytest.mark.django_db]

MACHINES = ["reference-cpu", "aws-g4dn.xlarge", "aws-p3.2xlarge"]


def load_shipped_data() -> None:
    """What ``script/setup`` loads; the reference CPU has timings, the GPUs are estimated."""
    fixtures = Path(settings.BASE_DIR) / "fixtures"
    call_command("load_catalogue")
    call_command("load_architectures", str(fixtures / "architectures.json"))
    call_command("import_measurements", *map(str, (fixtures / "timings").glob("*.jsonl.gz")))
    call_command("load_models")


def forecast_rows(network: OwnNetwork) -> list[ForecastRow]:
    slug = network.architecture.slug
    parameters = {"architecture": [slug], "machine": MACHINES, "batch_sizes": ["1,8,32"]}
    return make_forecast(parse_query(parameters, load_choices([slug]))).rows


def test_exports_for_training_are_forecast_as_their_traces_are():
    load_shipped_data()
    for slug in SLUGS:
        export = exported(slug, train=True)
        trace = format_traced_networks([traced(slug)], source="own").encode()
        from_export = forecast_rows(
            upload_network(SimpleUploadedFile("net.onnx", export), image_size=IMAGE_SIZE)
        )
        from_trace = forecast_rows(upload_network(SimpleUploadedFile("net.json", trace)))
        assert len(from_export) == len(from_trace) == 9
        for ours, theirs in zip(from_export, from_trace, strict=True):
            place = f"{slug} on {theirs.machine} at batch {theirs.batch_size}"
            assert theirs.iteration_ms is not None, f"{place}: {theirs.note}"
            assert ours.iteration_ms == pytest.approx(theirs.iteration_ms, rel=0.05), place
            assert ours.memory_mib == pytest.approx(theirs.memory_mib, rel=0.05), place
            assert (ours.source, ours.fits) == (theirs.source, theirs.fits), place
            assert ours.measured_share == pytest.approx(theirs.measured_share), place
            print(f"{place}: {ours.iteration_ms:.2f} against {theirs.iteration_ms:.2f} ms")
