"""Exports of torchvision's networks give what tracing the same networks gives."""

from __future__ import annotations

import io
import warnings
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torchvision", reason="torchvision is not installed")

import torch
from torchvision import models

from benchmarking.onnx_import.reader import UNFOLDED_EXPORT, read_onnx
from benchmarking.specs import Phase, TracedNetwork
from benchmarking.tests.onnx_import.graphs import without_weights
from benchmarking.tracing.tracer import trace_network

pytestmark = pytest.mark.torch

SLUGS = ("resnet50", "mobilenet_v2", "densenet121", "efficientnet_b0")
FOLDED = {"resnet50": 53, "mobilenet_v2": 52, "densenet121": 59, "efficientnet_b0": 49}
IMAGE_SIZE = 224

MATRIX_PRODUCTS = {"mm", "addmm", "bmm"}
COPIES = {"clone", "cat", "copy_", "constant_pad_nd", "slice_backward"}


def group_of(name: str, phase: Phase, moves_bytes: bool) -> str:
    if phase is Phase.OPTIMIZER:
        return "optimizer"
    if name in ("convolution", "convolution_backward"):
        return name
    if name in MATRIX_PRODUCTS:
        return "matrix products"
    if not moves_bytes:
        return "views"
    for kind in ("norm", "pool"):
        if kind in name:
            return f"{kind} {phase}"
    return "copies" if name in COPIES else f"elementwise {phase}"


def groups(network: TracedNetwork) -> dict[str, tuple[int, float, float]]:
    """Calls, bytes of 8 examples and multiply-adds of each physical group."""
    found: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for operation in network.operations:
        moved = 8 * operation.bytes_per_example + operation.bytes_fixed
        totals = found[group_of(operation.name, operation.phase, moved > 0)]
        totals[0] += operation.calls
        totals[1] += moved
        totals[2] += operation.multiply_adds_per_example
    return {name: (int(calls), moved, work) for name, (calls, moved, work) in found.items()}


@cache
def traced(slug: str) -> TracedNetwork:
    return trace_network(
        lambda: models.get_model(slug, weights=None), slug=slug, family="x", image_size=IMAGE_SIZE
    )


@cache
def exported(slug: str, *, train: bool, **options: Any) -> bytes:
    """A file by the exporter that works on TorchScript, with open batch and image size.

    The weights are taken out, without which ResNet-50 is too large to upload.
    """
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if train:
            options["training"] = torch.onnx.TrainingMode.TRAINING
        torch.onnx.export(
            models.get_model(slug, weights=None).train(train),
            (torch.zeros(2, 3, 64, 64),),
            file,
            dynamo=False,
            input_names=["images"],
            dynamic_axes={"images": {0: "batch", 2: "height", 3: "width"}},
            **options,
        )
    return without_weights(file.getvalue())


def exported_by_dynamo(slug: str, folder: Path, *, optimize: bool) -> bytes:
    """A file by PyTorch's newer exporter, weights beside it, in training mode."""
    path = folder / "net.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            models.get_model(slug, weights=None).train(),
            (torch.zeros(2, 3, IMAGE_SIZE, IMAGE_SIZE),),
            path,
            dynamo=True,
            optimize=optimize,
            external_data=True,
            verbose=False,
        )
    return path.read_bytes()


def assert_same_network(read: TracedNetwork, expected: TracedNetwork) -> None:
    """The same layers and parameters; bytes, work and calls of each group within 5 %."""
    assert read.convolutions == expected.convolutions
    assert read.parameters == expected.parameters
    assert read.parameter_tensors == expected.parameter_tensors
    assert read.multiply_adds == expected.multiply_adds
    assert read.minimum_batch_size == expected.minimum_batch_size
    of_read, of_expected = groups(read), groups(expected)
    assert of_read.keys() == of_expected.keys()
    print(f"\n{expected.slug}: export against trace")
    for name, (calls, moved, _) in sorted(of_expected.items()):
        print(
            f"  {name:22} {of_read[name][0]:5} {calls:5}  {of_read[name][1]:15,.0f} {moved:15,.0f}"
        )
    for name, (calls, moved, work) in of_expected.items():
        assert of_read[name][1:] == pytest.approx((moved, work), rel=0.05), name
        assert of_read[name][0] == pytest.approx(calls, rel=0.2, abs=8), name
    total = sum(moved for _, moved, _ in of_expected.values())
    assert sum(moved for _, moved, _ in of_read.values()) == pytest.approx(total, rel=0.01)
    for kept in ("saved_bytes", "saved_bytes_amp"):
        for part in ("per_example", "fixed"):
            name = f"{kept}_{part}"
            assert getattr(read, name) == pytest.approx(getattr(expected, name), rel=0.002), name


@pytest.mark.parametrize("slug", SLUGS)
def test_export_for_training(slug):
    read = read_onnx(exported(slug, train=True), slug=slug, image_size=IMAGE_SIZE)
    assert read.note == ""
    assert_same_network(read, traced(slug))


@pytest.mark.parametrize("slug", SLUGS)
def test_export_for_inference_gets_its_batch_norms_back(slug):
    read = read_onnx(exported(slug, train=False), slug=slug, image_size=IMAGE_SIZE)
    assert read.note == (
        f"BatchNorm was folded into {FOLDED[slug]} convolutions by the export and is put back "
        f"here, dropout is not; {UNFOLDED_EXPORT} for an exact forecast."
    )
    assert len(read.note) <= 300
    assert_same_network(read, traced(slug))


@pytest.mark.parametrize("optimize", [False, True])
def test_export_by_dynamo_with_weights_outside(tmp_path, optimize):
    data = exported_by_dynamo("mobilenet_v2", tmp_path, optimize=optimize)
    assert len(data) < 2_000_000
    read = read_onnx(data, slug="mobilenet_v2")
    # The advice in the note is the export that gives no note.
    assert bool(read.note) is optimize
    assert_same_network(read, traced("mobilenet_v2"))
