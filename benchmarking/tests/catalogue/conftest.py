"""A small catalogue on disk that tests change row by row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DEVICE: dict[str, Any] = {
    "slug": "t4",
    "name": "NVIDIA T4",
    "kind": "cuda",
    "usable_memory_mib": 15102.0,
    "memory_mib": 16384.0,
    "fp32_tflops": 8.1,
    "bandwidth_gb_s": 320.0,
    "multiprocessors": 40,
    "clock_mhz": 1590.0,
    "compute_capability": 7.5,
    "sources": dict.fromkeys(
        (
            "usable_memory_mib",
            "fp32_tflops",
            "bandwidth_gb_s",
            "multiprocessors",
            "clock_mhz",
            "compute_capability",
        ),
        "data sheet",
    ),
}
CPU: dict[str, Any] = {"slug": "local-cpu", "name": "This CPU", "kind": "cpu"}
MACHINE: dict[str, Any] = {
    "slug": "aws-g4dn.xlarge",
    "provider": "aws",
    "instance_type": "g4dn.xlarge",
    "device": "t4",
    "vcpus": 4,
    "memory_gib": 16,
    "region": "us-east-1",
    "source": "instance type page",
}
PRICE: dict[str, Any] = {
    "machine": "aws-g4dn.xlarge",
    "kind": "on-demand",
    "region": "us-east-1",
    "usd_per_hour": "0.526",
    "as_of": "2026-07-28",
    "source": "price list",
}

WriteCatalogue = Callable[..., Path]


@pytest.fixture
def write_catalogue(tmp_path: Path) -> WriteCatalogue:
    """Write the files of a catalogue; each argument is the list of rows of one file."""

    def write(
        *,
        devices: Any = (DEVICE,),
        cpus: Any = (CPU,),
        machines: Any = (MACHINE,),
        prices: Any = (PRICE,),
    ) -> Path:
        rows = {"devices": devices, "cpus": cpus, "machines": machines, "prices": prices}
        for name, value in rows.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(value))
        return tmp_path

    return write
