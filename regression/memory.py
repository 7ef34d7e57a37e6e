"""Device memory that training needs, and the largest batch that fits.

    parameters x (weight + gradient + optimizer state) + bytes kept for the backward pass
    + the batch + largest workspace and passing gradients + context, plus what the allocator
    loses to fragmentation

The trace counts the kept bytes, in FP32 and under autocast. The other figures are checked against
published memory readings and against the largest batches that others reached on 24 GB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from benchmarking.specs import (
    FLOAT32_BYTES,
    DeviceKind,
    DeviceSpec,
    Optimizer,
    Precision,
    TracedNetwork,
)
from regression.layer_features import FloatArray

_MIB = 2.0**20
_STATE_TENSORS = {Optimizer.SGD: 1.0, Optimizer.ADAMW: 2.0}


class Fits(StrEnum):
    """Verdict on a batch size; ``unknown`` when the margin is smaller than the model's error."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class MemoryVerdict:
    """Need and verdict at each batch size; the margin is what is left, negative when too little."""

    needed_mib: FloatArray
    margin_mib: FloatArray
    fits: tuple[Fits, ...]


class MemoryModel:
    """Training memory from a trace.

    Parameters
    ----------
    context_mib
        CUDA context and libraries, which ``usable_memory_mib`` still contains.
    transient_share
        Gradients in passing and workspace, as a share of the bytes kept per example.
    fragmentation
        Share that the caching allocator adds to what tensors take.
    largest_workspace_mib
        Workspace that cuDNN is granted at most for one convolution.
    certain_fit, certain_lack
        A batch fits when its need times the first is usable, and does not when its need is more
        than the second times what is usable. On 24 GB, others reached needs up to 1.12 times.
    """

    def __init__(
        self,
        context_mib: float = 450.0,
        transient_share: float = 0.10,
        fragmentation: float = 0.06,
        largest_workspace_mib: float = 512.0,
        certain_fit: float = 1.10,
        certain_lack: float = 1.15,
    ) -> None:
        self.context_mib = context_mib
        self.transient_share = transient_share
        self.fragmentation = fragmentation
        self.largest_workspace_mib = largest_workspace_mib
        self.certain_fit = certain_fit
        self.certain_lack = certain_lack

    def training_memory_mib(
        self,
        network: TracedNetwork,
        batch_sizes: NDArray[np.int64] | Sequence[int],
        optimizer: Optimizer,
        precision: Precision,
        device: DeviceSpec,
    ) -> FloatArray:
        """MiB that training needs at each batch size."""
        sizes = np.asarray(batch_sizes, dtype=float)
        if sizes.size and sizes.min() < 1:
            raise ValueError("batch sizes are at least 1")
        state = network.parameters * FLOAT32_BYTES * (2.0 + _STATE_TENSORS[optimizer])
        if precision is Precision.AMP:
            kept = network.saved_bytes_amp_per_example * sizes + network.saved_bytes_amp_fixed
        else:
            kept = network.saved_bytes_per_example * sizes + network.saved_bytes_fixed
        batch = FLOAT32_BYTES * 3.0 * network.image_size**2 * sizes
        passing = kept * self.transient_share
        if device.kind is DeviceKind.CPU:
            return np.asarray((state + kept + batch + passing) / _MIB)
        workspace = np.minimum(kept * 0.2, self.largest_workspace_mib * _MIB)
        tensors = (state + kept + batch + passing + workspace) * (1.0 + self.fragmentation)
        return np.asarray(tensors / _MIB + self.context_mib)

    def verdict(
        self,
        network: TracedNetwork,
        batch_sizes: NDArray[np.int64] | Sequence[int],
        optimizer: Optimizer,
        precision: Precision,
        device: DeviceSpec,
    ) -> MemoryVerdict:
        """Whether each batch size fits on the device; ``unknown`` if its memory is."""
        needed = self.training_memory_mib(network, batch_sizes, optimizer, precision, device)
        if device.usable_memory_mib is None:
            nothing = np.full(len(needed), np.nan)
            return MemoryVerdict(needed, nothing, (Fits.UNKNOWN,) * len(needed))
        usable = device.usable_memory_mib
        fits = tuple(
            Fits.YES
            if each * self.certain_fit <= usable
            else Fits.NO
            if each > usable * self.certain_lack
            else Fits.UNKNOWN
            for each in needed
        )
        return MemoryVerdict(needed, usable - needed, fits)

    def largest_batch_that_fits(
        self,
        network: TracedNetwork,
        optimizer: Optimizer,
        precision: Precision,
        device: DeviceSpec,
        largest: int = 1024,
    ) -> int | None:
        """Largest batch size whose verdict is ``yes``; 0 if none, ``None`` if memory is unknown."""
        if device.usable_memory_mib is None:
            return None
        sizes = np.arange(network.minimum_batch_size, largest + 1)
        needed = self.training_memory_mib(network, sizes, optimizer, precision, device)
        fitting = sizes[needed * self.certain_fit <= device.usable_memory_mib]
        return int(fitting[-1]) if len(fitting) else 0
