"""How the shipped GPUs report themselves: each by names of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.conf import settings

from benchmarking.jobs.provenance import ProvenanceError, check_gpu
from benchmarking.models import Device, Machine

CATALOGUE = json.loads(
    (Path(settings.BASE_DIR) / "fixtures" / "catalogue" / "devices.json").read_text()
)
GPUS = [row for row in CATALOGUE if row["kind"] == "cuda"]


def machine_with(row: dict[str, str]) -> Machine:
    device = Device(slug=row["slug"], name=row["name"], kind="cuda")
    device.reported_name = row["reported_name"]
    return Machine(slug=f"machine-with-{row['slug']}", device=device)


def accepts(row: dict[str, str], gpu_name: str) -> bool:
    try:
        check_gpu(machine_with(row), gpu_name)
    except ProvenanceError:
        return False
    return True


def test_every_shipped_gpu_knows_its_own_names_and_nobody_elses() -> None:
    for row in GPUS:
        for gpu_name in row["reported_name"].split(" | "):
            takers = [other["slug"] for other in GPUS if accepts(other, gpu_name)]
            assert takers == [row["slug"]], gpu_name


@pytest.mark.parametrize(
    ("gpu_name", "slug"),
    [
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb"),
        ("Tesla T4", "t4"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"),
        ("NVIDIA H200", "h200-sxm-141gb"),
        ("NVIDIA GeForce RTX 3090", "rtx-3090"),
    ],
)
def test_names_that_people_see_in_nvidia_smi(gpu_name: str, slug: str) -> None:
    assert [row["slug"] for row in GPUS if accepts(row, gpu_name)] == [slug]


@pytest.mark.parametrize(
    "gpu_name", ["NVIDIA GeForce RTX 3090 Ti", "NVIDIA T4G", "NVIDIA A100-SXM4-40GB MIG 1g.5gb"]
)
def test_r14_relatives_and_slices_of_a_gpu_are_not_the_gpu(gpu_name: str) -> None:
    assert [row["slug"] for row in GPUS if accepts(row, gpu_name)] == []
