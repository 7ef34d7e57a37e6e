"""What was learnt, as the planner of benchmarks on the floor below asks for it."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarking.estimates import RooflineEstimates
from benchmarking.specs import DeviceKind, DeviceSpec, Optimizer, TracedNetwork


class LearntEstimates(RooflineEstimates):
    """GPU iterations from the shipped estimator, and memory as forecasts judge it.

    A single layer, and what the estimator does not cover, keep the roofline: a plan asks for
    thousands of layers, and being off by a factor of two costs it nothing. Heavy modules load
    with the first question.
    """

    def iteration_seconds(
        self, network: TracedNetwork, batch_sizes: Sequence[int], device: DeviceSpec
    ) -> list[float]:
        """Seconds of whole training iterations in the device's default precision."""
        learnt = (
            _learnt_seconds(network, batch_sizes, device)
            if device.kind is DeviceKind.CUDA
            else dict[int, float]()
        )
        others = [size for size in batch_sizes if size not in learnt]
        seconds = learnt | dict(
            zip(others, super().iteration_seconds(network, others, device), strict=True)
        )
        return [seconds[size] for size in batch_sizes]

    def largest_batch(self, network: TracedNetwork, device: DeviceSpec) -> int | None:
        """The largest batch size that fits for sure; ``None`` where the memory is unknown."""
        from regression.memory import MemoryModel

        return MemoryModel().largest_batch_that_fits(
            network, Optimizer.SGD, device.default_precision, device
        )


def _learnt_seconds(
    network: TracedNetwork, batch_sizes: Sequence[int], device: DeviceSpec
) -> dict[int, float]:
    """What the shipped estimator says, by those batch sizes that it covers."""
    from regression.specification import shipped_estimator
    from regression.step_estimator import LARGEST_BATCH_SIZE, EstimatorFormatError

    covered = [size for size in batch_sizes if size <= LARGEST_BATCH_SIZE]
    if not covered:
        return {}
    try:
        estimate = shipped_estimator().estimate(network, device, covered, device.default_precision)
    except (EstimatorFormatError, ValueError):
        # Its rates are unknown: not a reason to plan nothing.
        return {}
    return dict(zip(covered, (estimate.iteration_ms / 1e3).tolist(), strict=True))
