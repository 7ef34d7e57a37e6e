"""What a plan needs to know before anything is measured: how long, and how large a batch.

The floor above knows better and says so with :func:`register_estimates`; until it does, a plain
roofline answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from benchmarking.specs import (
    FLOAT32_BYTES,
    ConvolutionSpec,
    DeviceKind,
    DeviceSpec,
    Pass,
    TracedNetwork,
)


class Estimates(Protocol):
    """Expected times on a device, for planning only.

    Times are asked for at several batch sizes at once and come in their order: most of the work
    is the same for all of them, and a plan asks for thousands.
    """

    def layer_seconds(
        self,
        layer: ConvolutionSpec,
        batch_sizes: Sequence[int],
        operation: Pass,
        device: DeviceSpec,
    ) -> list[float]:
        """Seconds of one pass of one convolution layer, at each batch size."""
        ...

    def iteration_seconds(
        self, network: TracedNetwork, batch_sizes: Sequence[int], device: DeviceSpec
    ) -> list[float]:
        """Seconds of one whole training iteration, at each batch size."""
        ...

    def largest_batch(self, network: TracedNetwork, device: DeviceSpec) -> int | None:
        """The largest batch size that fits into the device's memory; ``None`` if unknown."""
        ...


class RooflineEstimates:
    """Multiply-adds over the peak rate or bytes over the bandwidth, whichever takes longer.

    Parameters
    ----------
    attained_share
        Share of the data sheet's rates that real operations attain, about a half.
    launch_seconds
        Time to launch one operation.
    """

    # An ordinary core with AVX2, for a CPU that no data sheet describes.
    UNKNOWN_TFLOPS = {DeviceKind.CPU: 0.1, DeviceKind.CUDA: 5.0}
    UNKNOWN_BANDWIDTH_GB_S = {DeviceKind.CPU: 10.0, DeviceKind.CUDA: 300.0}
    # Weight, gradient and the momentum of SGD.
    TENSORS_PER_PARAMETER = 3

    def __init__(self, attained_share: float = 0.5, launch_seconds: float = 1e-5) -> None:
        self.attained_share = attained_share
        self.launch_seconds = launch_seconds

    def layer_seconds(
        self,
        layer: ConvolutionSpec,
        batch_sizes: Sequence[int],
        operation: Pass,
        device: DeviceSpec,
    ) -> list[float]:
        """Each pass reads two of input, output and filter and writes the third."""
        multiply_adds = layer.multiply_adds
        bytes_per_example = FLOAT32_BYTES * (layer.input_elements + layer.output_elements)
        bytes_fixed = FLOAT32_BYTES * layer.weight_elements
        return [
            self._seconds(size * multiply_adds, size * bytes_per_example + bytes_fixed, device)
            for size in batch_sizes
        ]

    def iteration_seconds(
        self, network: TracedNetwork, batch_sizes: Sequence[int], device: DeviceSpec
    ) -> list[float]:
        """The traced operations, one after the other."""
        return [
            sum(
                self._seconds(
                    size * operation.multiply_adds_per_example,
                    size * operation.bytes_per_example + operation.bytes_fixed,
                    device,
                    calls=operation.calls,
                )
                for operation in network.operations
            )
            for size in batch_sizes
        ]

    def largest_batch(self, network: TracedNetwork, device: DeviceSpec) -> int | None:
        """Usable memory less the parameters' tensors, over the bytes kept for one example."""
        if device.usable_memory_mib is None:
            return None
        parameter_bytes = FLOAT32_BYTES * self.TENSORS_PER_PARAMETER * network.parameters
        free_bytes = device.usable_memory_mib * 2**20 - parameter_bytes - network.saved_bytes_fixed
        return max(0, int(free_bytes // max(1.0, network.saved_bytes_per_example)))

    def _seconds(
        self, multiply_adds: float, moved_bytes: float, device: DeviceSpec, calls: int = 1
    ) -> float:
        tflops = device.fp32_tflops or self.UNKNOWN_TFLOPS[device.kind]
        bandwidth_gb_s = device.bandwidth_gb_s or self.UNKNOWN_BANDWIDTH_GB_S[device.kind]
        busy_seconds = max(
            2 * multiply_adds / (tflops * 1e12), moved_bytes / (bandwidth_gb_s * 1e9)
        )
        return busy_seconds / self.attained_share + calls * self.launch_seconds


class _Registry:
    """Holds the estimates in use."""

    def __init__(self) -> None:
        self.estimates: Estimates = RooflineEstimates()


_registry = _Registry()


def register_estimates(estimates: Estimates) -> None:
    """Use ``estimates`` from now on."""
    _registry.estimates = estimates


def current_estimates() -> Estimates:
    """The best estimates that anybody registered."""
    return _registry.estimates
