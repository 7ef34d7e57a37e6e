"""Networks and a device whose true costs are known, so that a test knows every answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarking.specs import (
    ConvolutionSpec,
    ConvolutionUse,
    DeviceKind,
    OperationSpec,
    Pass,
    Phase,
    TracedNetwork,
)
from regression.convolution import busy_ms_per_mega_multiply_add, complete_sums
from regression.features import FeatureTable, FloatArray, feature_table
from regression.training_set import TrainingSet

BATCH_SIZES = (1, 2, 4, 8)

TRUE_COSTS: Mapping[str, float] = {
    "elementwise": 0.12,
    "activation": 0.09,
    "copy": 0.11,
    "norm": 0.27,
    "norm_backward": 0.18,
    "pool": 0.7,
    "optimizer": 0.1,
    "matmul_weights": 0.08,
    "operations": 0.005,
}
"""Milliseconds per megabyte, and per operation."""

MS_PER_MEGA_MULTIPLY_ADD = 0.01


def make_network(slug: str, seed: int, family: str = "", depth: int = 6) -> TracedNetwork:
    """A random but plausible network."""
    random = np.random.default_rng(seed)
    counts: dict[ConvolutionSpec, int] = {}
    channels, extent = 3, 64
    for position in range(depth):
        wider = int(8 * random.integers(1, 9))
        layer = ConvolutionSpec(channels, extent, extent, wider, 3, 3, 1, 1, 1, 1)
        counts[layer] = counts.get(layer, 0) + (int(random.integers(1, 4)) if position else 1)
        channels = wider
    uses = [
        ConvolutionUse(layer, count, needs_input_gradient=layer.in_channels != 3)
        for layer, count in counts.items()
    ]
    parameters = int(random.integers(100_000, 20_000_000))

    def traffic(low: float, high: float) -> float:
        return float(random.uniform(low, high) * 1e6)

    operations = (
        OperationSpec("add_", Phase.FORWARD, 10, traffic(1, 20), 0.0),
        OperationSpec("relu_", Phase.FORWARD, 16, traffic(1, 20), 0.0),
        OperationSpec("threshold_backward", Phase.BACKWARD, 16, traffic(1, 20), 0.0),
        OperationSpec("cat", Phase.FORWARD, 4, traffic(0, 10), 0.0),
        OperationSpec("native_batch_norm", Phase.FORWARD, 16, traffic(1, 40), 2000.0),
        OperationSpec("native_batch_norm_backward", Phase.BACKWARD, 16, traffic(1, 40), 2000.0),
        OperationSpec("max_pool2d_with_indices", Phase.FORWARD, 1, traffic(0, 4), 0.0),
        OperationSpec("addmm", Phase.FORWARD, 1, 4e3, traffic(0.5, 20), 1e6),
        OperationSpec("_foreach_add_", Phase.OPTIMIZER, 3, 0.0, 44.0 * parameters),
    )
    return TracedNetwork(
        slug=slug,
        family=family or slug,
        image_size=64,
        parameters=parameters,
        parameter_tensors=30,
        multiply_adds=sum(use.count * use.layer.multiply_adds for use in uses),
        saved_bytes_per_example=traffic(2, 40),
        saved_bytes_fixed=0.0,
        saved_bytes_amp_per_example=0.0,
        saved_bytes_amp_fixed=0.0,
        convolutions=tuple(uses),
        operations=operations,
    )


def make_layer_times(
    networks: Sequence[TracedNetwork],
    batch_sizes: Sequence[int] = BATCH_SIZES,
    speed: float = 1.0,
) -> dict[tuple[str, int, Pass], float]:
    """Every pass of every layer, at a constant rate."""
    ms_per_multiply_add = MS_PER_MEGA_MULTIPLY_ADD / 1e6 / speed
    return {
        (use.layer.key, size, operation): ms_per_multiply_add * use.layer.multiply_adds * size
        for network in networks
        for use in network.convolutions
        for size in batch_sizes
        for operation in Pass
    }


def make_table(
    networks: Sequence[TracedNetwork],
    batch_sizes: Sequence[int] = BATCH_SIZES,
    speed: float = 1.0,
) -> FeatureTable:
    """The features of every network at every batch size."""
    times = make_layer_times(networks, batch_sizes, speed)
    return FeatureTable.concatenate(
        [feature_table(each, complete_sums(each, batch_sizes, times)) for each in networks]
    )


def true_device_ms(
    table: FeatureTable, speed: float = 1.0
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """What the iterations really take, without noise."""
    device_ms = table.convolution_ms.copy()
    for column, cost in TRUE_COSTS.items():
        device_ms += cost / speed * table.column(column)
    return device_ms


def make_networks(number: int) -> list[TracedNetwork]:
    """So many networks, two to a family."""
    return [make_network(f"net{n:02}", seed=n, family=f"family{n // 2}") for n in range(number)]


def make_training_set(
    networks: Sequence[TracedNetwork], noise: float = 0.0, seed: int = 1, runs: int = 1
) -> TrainingSet:
    """A CPU's training set; ``noise`` is the relative standard deviation of each run's times."""
    table = make_table(networks)
    random = np.random.default_rng(seed)
    by_run = true_device_ms(table)[:, None] * np.exp(
        noise * random.standard_normal((len(table), runs))
    )
    return TrainingSet(
        kind=DeviceKind.CPU,
        table=table,
        iteration_ms=np.median(by_run, axis=1),
        runs_ms=tuple({str(n): float(ms) for n, ms in enumerate(row)} for row in by_run),
        mega_multiply_add_ms=busy_ms_per_mega_multiply_add(networks, make_layer_times(networks)),
        traced=tuple(networks),
        layer_times=make_layer_times(networks),
    )


def errors_pct(predicted: FloatArray, true: FloatArray) -> FloatArray:
    """Absolute errors in percent of the true values."""
    return 100 * np.abs(predicted / true - 1)
