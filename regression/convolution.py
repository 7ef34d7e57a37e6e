"""The convolutions of an iteration: the sum of their timings, and what is missing from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from benchmarking.specs import ConvolutionSpec, Pass, TracedNetwork

LayerTimes = Mapping[tuple[str, int, Pass], float]
"""Pooled milliseconds by layer key, batch size and pass."""

LayerFallback = Callable[[ConvolutionSpec, int, Pass], float]
"""Estimated milliseconds of a pass that was not timed."""


class ConvolutionKind(StrEnum):
    """What decides which kernel computes a layer."""

    DEPTHWISE = "depthwise"
    GROUPED = "grouped"
    POINTWISE = "pointwise"
    DENSE = "dense"


def convolution_kind(layer: ConvolutionSpec) -> ConvolutionKind:
    """The kind of a layer; one input channel a group makes it depthwise."""
    if layer.groups > 1:
        if layer.groups == layer.in_channels:
            return ConvolutionKind.DEPTHWISE
        return ConvolutionKind.GROUPED
    if layer.kernel_height == layer.kernel_width == 1:
        return ConvolutionKind.POINTWISE
    return ConvolutionKind.DENSE


@dataclass(frozen=True, slots=True)
class ConvolutionSum:
    """All convolutions of one iteration at one batch size.

    ``kind_ms`` are milliseconds by kind and make up the sum, timed and estimated;
    ``estimated_ms`` is the part of it that comes from the fallback; ``missing`` are the passes
    without a timing.
    """

    batch_size: int
    kind_ms: Mapping[ConvolutionKind, float]
    estimated_ms: float
    missing: tuple[tuple[ConvolutionSpec, Pass], ...]

    @property
    def milliseconds(self) -> float:
        """Sum over the layers of count times passes."""
        return sum(self.kind_ms.values())

    @property
    def is_complete(self) -> bool:
        """Whether every pass was timed."""
        return not self.missing

    @property
    def measured_share(self) -> float:
        """Share of the convolution time that comes from timings, 0 to 1."""
        total = self.milliseconds
        return max(0.0, 1 - self.estimated_ms / total) if total > 0 else 0.0

    @property
    def missing_layers(self) -> int:
        """How many layers lack at least one pass."""
        return len({layer for layer, _ in self.missing})


def sum_convolutions(
    network: TracedNetwork,
    batch_size: int,
    times: LayerTimes,
    fallback: LayerFallback | None = None,
) -> ConvolutionSum:
    """Add up ``count x (forward + backward filter + backward data)`` over a network's layers.

    A pass without a timing counts with its ``fallback``, or nothing where there is none; it is
    listed as missing in both cases.
    """
    kind_ms = dict.fromkeys(ConvolutionKind, 0.0)
    estimated_ms = 0.0
    missing: list[tuple[ConvolutionSpec, Pass]] = []
    for use in network.convolutions:
        key, kind = use.layer.key, convolution_kind(use.layer)
        for operation in use.passes:
            milliseconds = times.get((key, batch_size, operation))
            if milliseconds is None:
                missing.append((use.layer, operation))
                if fallback is None:
                    continue
                milliseconds = fallback(use.layer, batch_size, operation)
                estimated_ms += use.count * milliseconds
            kind_ms[kind] += use.count * milliseconds
    return ConvolutionSum(batch_size, kind_ms, estimated_ms, tuple(missing))


def complete_sums(
    network: TracedNetwork, batch_sizes: Iterable[int], times: LayerTimes
) -> list[ConvolutionSum]:
    """The sums at those batch sizes at which every pass was timed, ascending."""
    sums = (sum_convolutions(network, size, times) for size in sorted(set(batch_sizes)))
    return [each for each in sums if each.is_complete]


def busy_ms_per_mega_multiply_add(
    networks: Sequence[TracedNetwork], times: LayerTimes
) -> float | None:
    """Milliseconds per million multiply-adds in ungrouped convolutions that keep the device busy.

    The 5th percentile over the larger half of the timed passes: what a large matrix product can
    be expected to take. ``None`` where no such pass was timed.
    """
    layers = {
        use.layer.key: use.layer
        for network in networks
        for use in network.convolutions
        if use.layer.groups == 1
    }
    timed = [
        (layers[key].multiply_adds * batch_size / 1e6, milliseconds)
        for (key, batch_size, _), milliseconds in times.items()
        if key in layers
    ]
    if not timed:
        return None
    work, milliseconds = np.array(timed).T
    large = work >= np.median(work)
    return float(np.percentile(milliseconds[large] / work[large], 5))
