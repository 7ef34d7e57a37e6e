"""What a plan needs to know before anything is measured: how long, and how large a batch.

The floor above knows better and says so with :func:`register_estimates`; until it does, a plain
roofline answers.
"""

from __future__ import annotations

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
    """Expected times on a device, for planning only."""

    def layer_seconds(
        self, layer: ConvolutionSpec, batch_size: int, operation: Pass, device: DeviceSpec
    ) -> float:
        """Seconds of one pass of one convolution layer."""
        ...

    def iteration_seconds(
        self, network: TracedNetwork, batch_size: int, device: DeviceSpec
    ) -> float:
        """Seconds of one whole training iteration."""
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
        self, layer: ConvolutionSpec, batch_size: int, operation: Pass, device: DeviceSpec
    ) -> float:
        """Seconds of one pass; each reads two of input, output and filter and writes the third."""
        elements = batch_size * (layer.input_elements + layer.output_elements)
        moved_bytes = FLOAT32_BYTES * (elements + layer.weight_elements)
        return self._seconds(batch_size * layer.multiply_adds, moved_bytes, device)

    def iteration_seconds(
        self, network: TracedNetwork, batch_size: int, device: DeviceSpec
    ) -> float:
        """The traced operations, one after the other."""
        return sum(
            self._seconds(
                batch_size * operation.multiply_adds_per_example,
                batch_size * operation.bytes_per_example + operation.bytes_fixed,
                device,
                calls=operation.calls,
            )
            for operation in network.operations
        )

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
