"""What was learnt, as the planner of benchmarks on the floor below asks for it."""

from __future__ import annotations

from benchmarking.estimates import RooflineEstimates
from benchmarking.specs import DeviceKind, DeviceSpec, Optimizer, TracedNetwork


class LearntEstimates(RooflineEstimates):
    """GPU iterations from the shipped estimator, and memory as forecasts judge it.

    A single layer, and what the estimator does not cover, keep the roofline: a plan asks for
    thousands of layers, and being off by a factor of two costs it nothing. Heavy modules load
    with the first question.
    """

    def iteration_seconds(
        self, network: TracedNetwork, batch_size: int, device: DeviceSpec
    ) -> float:
        """Seconds of one whole training iteration in the device's default precision."""
        if device.kind is DeviceKind.CUDA:
            from regression.specification import shipped_estimator
            from regression.step_estimator import EstimatorFormatError

            try:
                estimate = shipped_estimator().estimate(
                    network, device, [batch_size], device.default_precision
                )
                return float(estimate.iteration_ms[0]) / 1e3
            except (EstimatorFormatError, ValueError):
                # Rates unknown, or a batch size out of range: not a reason to plan nothing.
                pass
        return super().iteration_seconds(network, batch_size, device)

    def largest_batch(self, network: TracedNetwork, device: DeviceSpec) -> int | None:
        """The largest batch size that fits for sure; ``None`` where the memory is unknown."""
        from regression.memory import MemoryModel

        return MemoryModel().largest_batch_that_fits(
            network, Optimizer.SGD, device.default_precision, device
        )
