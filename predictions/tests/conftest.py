"""A small catalogue, and regression replaced by arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from benchmarking.models import Architecture, Machine
from benchmarking.tests.factories import (
    create_architecture,
    create_device,
    create_machine,
    create_price,
)
from predictions import curves
from predictions.forecast import load_choices
from predictions.query import ForecastQuery, parse_query
from predictions.tests.fakes import fake_curve


@dataclass
class CountedCurves:
    """How often the stand-in for regression was asked, and for what."""

    asked: list[tuple[str, str, int]]


@pytest.fixture
def regression(monkeypatch: pytest.MonkeyPatch) -> CountedCurves:
    """Answer curves by :func:`fake_curve`, and count."""
    counted = CountedCurves([])

    def answer(architecture, place, precision, optimizer, batch_sizes):
        counted.asked.append((architecture.slug, place.key, len(batch_sizes)))
        return fake_curve(architecture, place, precision, optimizer, batch_sizes)

    monkeypatch.setattr(curves, "compute_curve", answer)
    return counted


@pytest.fixture
def catalogue(db: None, regression: CountedCurves) -> Iterator[dict[str, Machine]]:
    """Four CNNs and six machines, each with a trap of its own."""
    create_cnns()
    yield create_machines()


def create_cnns() -> None:
    """ResNet-50 and friends, as far as a forecast cares."""
    for slug, size, parameters, multiply_adds, saved in (
        ("resnet50", 224, 25_557_032, 4_089_284_608, 85.9e6),
        ("mobilenet_v2", 224, 3_504_872, 300_774_272, 78.2e6),
        ("inception_v3", 224, 27_161_264, 2_847_000_000, 50.0e6),
        ("inception_v3", 299, 27_161_264, 5_713_216_096, 90.0e6),
    ):
        create_architecture(
            slug=slug,
            image_size=size,
            family=slug.split("_")[0],
            parameters=parameters,
            multiply_adds=multiply_adds,
            saved_bytes_per_example=saved,
            saved_bytes_amp_per_example=saved / 2,
            minimum_batch_size=2 if slug == "mobilenet_v2" else 1,
        )
    assert Architecture.objects.count() == 4


def create_machines() -> dict[str, Machine]:
    """One of each kind: notional, plain, of eight devices, retired, undated, unpriced."""
    cpu = create_device(
        slug="reference-cpu", name="Reference CPU", kind="cpu", usable_memory_mib=8000.0
    )
    t4 = create_device(slug="t4", name="NVIDIA T4", fp32_tflops=8.1, usable_memory_mib=15102.0)
    a100 = create_device(
        slug="a100-sxm4-40gb",
        name="NVIDIA A100",
        fp32_tflops=19.5,
        tf32_tflops=156.0,
        usable_memory_mib=40000.0,
    )
    machines = {
        "reference-cpu": create_machine(
            slug="reference-cpu", provider="reference", device=cpu, region="us-east-1"
        ),
        "aws-g4dn.xlarge": create_machine(slug="aws-g4dn.xlarge", device=t4),
        "aws-p4d.24xlarge": create_machine(slug="aws-p4d.24xlarge", device=a100, device_count=8),
        "aws-old.xlarge": create_machine(
            slug="aws-old.xlarge", device=t4, availability=Machine.Availability.RETIRED
        ),
        "azure-undated": create_machine(
            slug="azure-undated", provider="azure", device=t4, region="eastus"
        ),
        "gcp-unpriced": create_machine(
            slug="gcp-unpriced", provider="gcp", device=t4, region="us-central1"
        ),
    }
    create_price(machine=machines["reference-cpu"], usd_per_hour="0.1008", notional=True)
    create_price(machine=machines["aws-g4dn.xlarge"], usd_per_hour="0.526")
    create_price(machine=machines["aws-p4d.24xlarge"], usd_per_hour="21.957642")
    create_price(machine=machines["aws-old.xlarge"], usd_per_hour="0.01", as_of="2018/2019")
    create_price(machine=machines["azure-undated"], usd_per_hour="0.02", region="eastus", as_of="")
    return machines


@pytest.fixture
def ask(catalogue: dict[str, Machine]) -> Callable[..., ForecastQuery]:
    """A query from the names of its query string; several values as a list."""

    def parse(**parameters: str | list[str]) -> ForecastQuery:
        texts = {
            name: value if isinstance(value, list) else [value]
            for name, value in parameters.items()
        }
        return parse_query(texts, load_choices())

    return parse
