"""Every torchvision CNN against the figures that torchvision publishes with its weights."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torchvision", reason="torchvision is not installed")

from benchmarking.specs import ConvolutionSpec, ConvolutionUse, Phase, TracedNetwork
from benchmarking.tracing.source import TraceableNetwork
from benchmarking.tracing.sweep import IMAGE_SIZES, trace_sizes, usual_image_sizes
from benchmarking.tracing.torchvision_source import TorchvisionSource, family_of

pytestmark = pytest.mark.torch

NETWORKS = {network.slug: network for network in TorchvisionSource().networks()}

GOOGLENET_AUXILIARY_PARAMETERS = (
    (512 + 528) * 128 + 2 * (2 * 128) + 2 * (2048 * 1024 + 1024) + 2 * (1024 * 1000 + 1000)
)
"""Two heads: a 1x1 convolution to 128 channels, its BatchNorm, and two linear layers."""

LEAST_FIGURE = 0.0005
"""``_ops`` has three decimals (in 1e9): 0.0405 is published as 0.040."""


@cache
def trace(slug: str, image_size: int) -> TracedNetwork:
    traces = trace_sizes(NETWORKS[slug], [image_size])
    assert not traces.skipped, traces.skipped
    return traces.traced[0]


def test_the_68_cnns_are_there_and_the_transformers_are_not() -> None:
    assert len(NETWORKS) == 68
    assert not [slug for slug in NETWORKS if slug.startswith(("vit_", "swin_", "maxvit"))]
    assert list(NETWORKS) == sorted(NETWORKS)


def test_families() -> None:
    assert Counter(network.family for network in NETWORKS.values()) == {
        "alexnet": 1,
        "convnext": 4,
        "densenet": 4,
        "efficientnet": 8,
        "efficientnet_v2": 3,
        "googlenet": 1,
        "inception": 1,
        "mnasnet": 4,
        "mobilenet_v2": 1,
        "mobilenet_v3": 2,
        "regnet": 15,
        "resnet": 5,
        "resnext": 3,
        "shufflenet": 4,
        "squeezenet": 2,
        "vgg": 8,
        "wide_resnet": 2,
    }
    assert family_of("newnet_v7_large") == "newnet"


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_parameters_and_multiply_adds_are_those_that_torchvision_publishes(
    network: TraceableNetwork,
) -> None:
    traced = trace(network.slug, network.published_image_size)
    assert network.published_parameters is not None
    extra = GOOGLENET_AUXILIARY_PARAMETERS if network.slug == "googlenet" else 0
    assert traced.parameters == network.published_parameters + extra
    assert network.published_multiply_adds is not None
    difference = abs(traced.multiply_adds - network.published_multiply_adds)
    assert difference <= max(0.01 * network.published_multiply_adds, LEAST_FIGURE * 1e9)
    calls = sum(use.count for use in traced.convolutions)
    by_name = {(o.name, o.phase): o.calls for o in traced.operations}
    assert by_name["convolution", Phase.FORWARD] == calls
    assert by_name["convolution_backward", Phase.BACKWARD] == calls
    assert [use.count for use in traced.convolutions if not use.needs_input_gradient] == [1]
    assert 0 < traced.saved_bytes_amp_per_example < traced.saved_bytes_per_example


@pytest.mark.parametrize(
    ("slug", "megabytes"),
    [("resnet50", 85.9), ("vgg16", 73.4), ("mobilenet_v2", 78.2), ("densenet121", 130.4)],
)
def test_bytes_kept_for_the_backward_pass(slug: str, megabytes: float) -> None:
    assert round(trace(slug, 224).saved_bytes_per_example / 1e6, 1) == megabytes


def test_the_first_layer_of_resnet50() -> None:
    traced = trace("resnet50", 224)
    first = ConvolutionSpec(3, 224, 224, 64, 7, 7, 2, 2, 3, 3)
    assert ConvolutionUse(first, 1, needs_input_gradient=False) in traced.convolutions
    assert sum(use.count for use in traced.convolutions) == 53
    assert traced.parameter_tensors == 161
    assert traced.minimum_batch_size == 1


def test_the_head_of_inception_needs_more_than_288_pixels_and_two_examples() -> None:
    at_299, at_288 = trace("inception_v3", 299), trace("inception_v3", 288)
    assert at_299.note == ""
    assert at_299.minimum_batch_size == 2
    assert at_288.note == "Traced without its auxiliary head, which 288 px images do not fit."
    assert at_288.minimum_batch_size == 1
    assert at_299.parameters - at_288.parameters == 3326696


def test_googlenet_trains_with_both_heads_at_any_size_that_it_accepts() -> None:
    traced = trace("googlenet", 224)
    losses = [o for o in traced.operations if o.name == "nll_loss_forward"]
    assert [o.calls for o in losses] == [3]
    assert traced.note == ""


def test_an_image_too_small_for_the_network_is_skipped_with_the_reason() -> None:
    traces = trace_sizes(NETWORKS["alexnet"], [32, 224])
    assert [network.image_size for network in traces.traced] == [224]
    (skip,) = traces.skipped
    assert (skip.slug, skip.image_size) == ("alexnet", 32)
    assert skip.reason.startswith("alexnet cannot train on 32 px images: ")


def test_small_images_leave_batch_norm_one_value() -> None:
    assert trace("resnet18", 32).minimum_batch_size == 2
    assert trace("resnet18", 64).minimum_batch_size == 1


def test_usual_image_sizes() -> None:
    assert usual_image_sizes(NETWORKS["resnet50"]) == IMAGE_SIZES
    assert set(usual_image_sizes(NETWORKS["efficientnet_b7"])) == {*IMAGE_SIZES, 600}
