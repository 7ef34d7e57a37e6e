"""Small networks whose traces can be worked out by hand. Imports torch: only for its tests."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from benchmarking.specs import TracedNetwork
from benchmarking.tracing.tracer import trace_network


class Head(nn.Module):
    """Averages each channel and classifies."""

    def __init__(self, channels: int, classes: int = 10) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, classes)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.linear(features.mean((2, 3)))


def classifier(*layers: nn.Module, channels: int) -> nn.Sequential:
    """Layers that end in ``channels`` channels, then a classifier."""
    return nn.Sequential(*layers, Head(channels))


def trace(
    factory: Callable[[], nn.Module], image_size: int = 16, in_channels: int = 3
) -> TracedNetwork:
    """Trace under a name that does not matter."""
    return trace_network(
        factory, slug="small", family="own", image_size=image_size, in_channels=in_channels
    )
