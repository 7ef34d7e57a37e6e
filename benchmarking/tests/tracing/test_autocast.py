"""Bytes kept for the backward pass, in FP32 and under autocast."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torchvision import models

from benchmarking.tests.tracing.networks import Head, classifier, trace
from benchmarking.tracing.autocast import amp_kept_bytes
from benchmarking.tracing.building import build_on_meta
from benchmarking.tracing.kept_bytes import KeptStorages
from benchmarking.tracing.shape_memory import ShapeMemory

pytestmark = pytest.mark.torch

PIXELS = 16 * 16


def test_each_storage_is_kept_once_and_parameters_are_left_out() -> None:
    traced = trace(
        lambda: classifier(
            nn.Conv2d(3, 8, 1, bias=False),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 8, 1, bias=False),
            channels=8,
        )
    )
    images, activation = 4 * 3 * PIXELS, 4 * 8 * PIXELS
    averages, log_probabilities, label = 4 * 8, 4 * 10, 8
    # The activation is the result of ReLU and the input of the second convolution at once; the
    # loss keeps the weight of all its labels.
    assert traced.saved_bytes_per_example == (
        images + activation + averages + log_probabilities + label
    )
    assert traced.saved_bytes_fixed == 4


def test_under_autocast_convolutions_keep_half_precision_and_copies_of_their_weights() -> None:
    traced = trace(
        lambda: classifier(
            nn.Conv2d(3, 8, 1, bias=False),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 8, 1, bias=False),
            channels=8,
        )
    )
    images, activation = 2 * 3 * PIXELS, 2 * 8 * PIXELS
    # The loss takes the scores in half precision and gives log probabilities in full.
    averages, scores, log_probabilities, label = 2 * 8, 2 * 10, 4 * 10, 8
    assert traced.saved_bytes_amp_per_example == (
        images + activation + averages + scores + log_probabilities + label
    )
    assert traced.saved_bytes_amp_fixed == 2 * (3 * 8 + 8 * 8 + 8 * 10) + 4


def test_a_weight_that_is_used_twice_is_copied_once() -> None:
    def factory() -> nn.Module:
        shared = nn.Conv2d(3, 3, 1, bias=False)
        return classifier(shared, shared, channels=3)

    assert trace(factory).saved_bytes_amp_fixed == 2 * (3 * 3 + 3 * 10) + 4


def test_layer_norm_and_softmax_stay_in_full_precision_under_autocast() -> None:
    class Normalized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(3, 8, 1, bias=False)
            self.norm = nn.LayerNorm((8, 16, 16))
            self.head = Head(8)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.head(self.norm(self.convolution(images)))

    traced = trace(Normalized)
    assert traced.saved_bytes_amp_per_example == (
        2 * 3 * PIXELS  # the convolution's input
        + 4 * 8 * PIXELS  # the norm's input, cast back
        + 4 * 2  # its mean and deviation
        + 2 * 8  # the linear layer's input
        + 2 * 10  # scores
        + 4 * 10  # log probabilities
        + 8  # label
    )


@pytest.mark.parametrize(
    "name", ["alexnet", "resnet18", "mobilenet_v3_small", "shufflenet_v2_x0_5", "convnext_tiny"]
)
def test_fake_tensors_keep_the_same_bytes_under_autocast(name: str) -> None:
    """FakeTensorMode is PyTorch's own way to run CUDA code without a GPU; slow, but a witness."""
    module = build_on_meta(lambda: models.get_model(name, weights=None))

    def loss(outputs: torch.Tensor, targets: Any) -> torch.Tensor:
        return F.cross_entropy(outputs, targets((outputs.shape[0],)))

    ours = amp_kept_bytes(module, 2, (3, 64, 64), loss, ShapeMemory())
    assert ours == fake_kept_bytes(module, 2, 64)


def fake_kept_bytes(module: nn.Module, batch_size: int, image_size: int) -> int:
    with FakeTensorMode(), torch.backends.cudnn.flags(enabled=False):
        parameters = {
            name: nn.Parameter(torch.empty(value.shape, device="cuda"))
            for name, value in module.named_parameters()
        }
        buffers = {
            name: torch.empty(value.shape, dtype=value.dtype, device="cuda")
            for name, value in module.named_buffers()
        }
        kept = KeptStorages(parameters.values())
        images = torch.empty((batch_size, 3, image_size, image_size), device="cuda")
        labels = torch.empty(batch_size, dtype=torch.long, device="cuda")
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", torch.float16)
        torch.autocast_increment_nesting()
        try:
            with torch.autograd.graph.saved_tensors_hooks(kept.add, lambda packed: packed):
                state = {**parameters, **buffers}
                F.cross_entropy(torch.func.functional_call(module, state, (images,)), labels)
        finally:
            torch.autocast_decrement_nesting()
            torch.clear_autocast_cache()
            torch.set_autocast_enabled("cuda", False)
        return kept.bytes


def test_autocast_is_off_again_after_a_trace() -> None:
    trace(lambda: classifier(nn.Conv2d(3, 8, 1), channels=8))
    assert not torch.is_autocast_enabled("cuda")
    assert torch.nn.functional.conv2d(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 1, 1)).tolist() == [
        [[[1.0, 1.0], [1.0, 1.0]]]
    ]
