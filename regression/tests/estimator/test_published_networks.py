"""Definitions of the published networks, against parameter counts computed by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.torch


def _parameters(name: str, image_size: int) -> int:
    from benchmarking.tracing.keras_networks import build_keras_network

    return sum(each.numel() for each in build_keras_network(name, image_size).parameters())


def test_lenet5_grows_with_the_image() -> None:
    convolutions = 6 * 3 * 25 + 6 + 16 * 6 * 25 + 16
    dense = 120 * 84 + 84 + 84 * 10 + 10
    assert _parameters("LeNet5", 32) == convolutions + dense + 16 * 5 * 5 * 120 + 120


def test_vgg11_has_eight_convolutions_and_a_classifier_of_the_image() -> None:
    widths = [3, 64, 128, 256, 256, 512, 512, 512, 512]
    convolutions = sum(9 * a * b + b for a, b in pairwise(widths))
    dense = 512 * 2 * 2 * 4096 + 4096 + 4096 * 4096 + 4096 + 4096 * 100 + 100
    assert _parameters("VGG11", 64) == convolutions + dense


def test_pre_activation_resnet18_matches_the_textbook() -> None:
    assert _parameters("ResNet18", 224) == pytest.approx(11.69e6, rel=0.005)


def test_an_unknown_network_is_refused() -> None:
    from benchmarking.tracing.keras_networks import build_keras_network

    with pytest.raises(ValueError, match="none of PROFET's networks"):
        build_keras_network("VGG99", 32)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("resnet34", "resnet"),
        ("tf_efficientnet_b2_ns", "efficientnet"),
        ("regnety_040", "regnet"),
        ("vit_base_patch16_224", None),
        ("efficientnet_b0_gn", None),
    ],
)
def test_families_of_timm_networks(name: str, family: str | None) -> None:
    from benchmarking.tracing.timm_networks import family_of

    assert family_of(name) == family
