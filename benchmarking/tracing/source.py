"""What a source of architectures offers; a new source is one file with one such object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class TraceableNetwork:
    """A network that can be built and traced.

    ``published_image_size`` is the crop size in pixels that its published weights were made
    with. ``published_parameters`` and ``published_multiply_adds`` (of convolutions and linear
    layers, at that size) are the publisher's own figures, ``None`` where there are none.
    ``auxiliary_weight`` is the factor of each auxiliary head's loss; ``build_without_heads``
    builds the network without those heads, for images that are too small for them.
    """

    slug: str
    family: str
    build: Callable[[], nn.Module]
    published_image_size: int
    published_parameters: int | None = None
    published_multiply_adds: int | None = None
    auxiliary_weight: float = 0.0
    build_without_heads: Callable[[], nn.Module] | None = None


class ArchitectureSource(Protocol):
    """A library of networks."""

    @property
    def name(self) -> str:
        """What ``--source`` calls it, for example ``torchvision``."""

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the packages that decide what a trace holds."""

    def networks(self) -> tuple[TraceableNetwork, ...]:
        """Every network of the source that can be traced, sorted by slug."""
