"""The convolutional classification networks of torchvision as an architecture source."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torchvision
from torch import nn
from torchvision import models

from benchmarking.tracing.source import TraceableNetwork

_NOT_CONVOLUTIONAL = ("vit_", "swin_", "maxvit")

_FAMILY_PREFIXES = (
    "alexnet",
    "convnext",
    "densenet",
    "efficientnet_v2",
    "efficientnet",
    "googlenet",
    "inception",
    "mnasnet",
    "mobilenet_v2",
    "mobilenet_v3",
    "regnet_x",
    "regnet_y",
    "resnext",
    "resnet",
    "shufflenet",
    "squeezenet",
    "vgg",
    "wide_resnet",
)
"""Longest first where one begins another."""

_FAMILY_OF_PREFIX = {"regnet_x": "regnet", "regnet_y": "regnet"}

_AUXILIARY_WEIGHTS = {"googlenet": 0.3, "inception_v3": 0.4}
"""From the papers: Szegedy et al. 2014 and, as torchvision's tutorials use it, 2015."""


class TorchvisionSource:
    """All image classification CNNs of the installed torchvision."""

    name = "torchvision"

    @property
    def versions(self) -> dict[str, str]:
        """Versions of torch and torchvision, without the build's suffix."""
        return {
            "torch": torch.__version__.split("+")[0],
            "torchvision": torchvision.__version__.split("+")[0],
        }

    def networks(self) -> tuple[TraceableNetwork, ...]:
        """Every classification builder but the transformers, sorted by slug."""
        slugs = models.list_models(module=models)
        return tuple(
            _network(slug) for slug in sorted(slugs) if not slug.startswith(_NOT_CONVOLUTIONAL)
        )


def _network(slug: str) -> TraceableNetwork:
    weights = next(iter(models.get_model_weights(slug)))
    build_without_heads = None
    if slug in _AUXILIARY_WEIGHTS:
        build_without_heads = _builder(slug, aux_logits=False)
    # The transform's crop is what the metadata's operation count refers to; newer weights of
    # the same network may have been made for another size.
    return TraceableNetwork(
        slug=slug,
        family=family_of(slug),
        build=_builder(slug, **({"aux_logits": True} if slug in _AUXILIARY_WEIGHTS else {})),
        published_image_size=_crop_size(weights),
        published_parameters=weights.meta["num_params"],
        published_multiply_adds=round(weights.meta["_ops"] * 1e9),
        auxiliary_weight=_AUXILIARY_WEIGHTS.get(slug, 0.0),
        build_without_heads=build_without_heads,
    )


def family_of(slug: str) -> str:
    """The family of a torchvision builder; one that no prefix knows is its leading word."""
    for prefix in _FAMILY_PREFIXES:
        if slug.startswith(prefix):
            return _FAMILY_OF_PREFIX.get(prefix, prefix)
    return re.split(r"[_\d]", slug, maxsplit=1)[0]


def _builder(slug: str, **options: Any) -> Callable[[], nn.Module]:
    return partial(_build, slug, options)


def _build(slug: str, options: dict[str, Any]) -> nn.Module:
    with warnings.catch_warnings():
        # GoogLeNet and Inception warn that their initialisation is slow; on meta it is not.
        warnings.simplefilter("ignore", FutureWarning)
        return models.get_model(slug, weights=None, **options)


def _crop_size(weights: Any) -> int:
    crop = weights.transforms.keywords["crop_size"]
    return int(crop[0] if isinstance(crop, (list, tuple)) else crop)
