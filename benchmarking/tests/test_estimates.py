"""The plain roofline, and the better estimates that another floor may register."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarking.estimates import (
    Estimates,
    RooflineEstimates,
    current_estimates,
    register_estimates,
)
from benchmarking.specs import (
    ConvolutionSpec,
    DeviceKind,
    DeviceSpec,
    OperationSpec,
    Pass,
    Phase,
    TracedNetwork,
)

DEVICE = DeviceSpec(
    slug="gpu",
    kind=DeviceKind.CUDA,
    usable_memory_mib=1000.0,
    fp32_tflops=1.0,
    bandwidth_gb_s=100.0,
)
NETWORK = TracedNetwork(
    slug="tiny",
    family="tiny",
    image_size=32,
    parameters=2**20,
    parameter_tensors=2,
    multiply_adds=10**9,
    saved_bytes_per_example=2**20,
    saved_bytes_fixed=0.0,
    saved_bytes_amp_per_example=2**19,
    saved_bytes_amp_fixed=0.0,
    convolutions=(),
    operations=(
        OperationSpec("convolution", Phase.FORWARD, 1, 0.0, 0.0, 1e9),
        OperationSpec("relu", Phase.FORWARD, 3, 1e8, 5e8),
    ),
)


@pytest.fixture
def registered() -> Iterator[None]:
    before = current_estimates()
    yield
    register_estimates(before)


def test_layer_bound_by_arithmetic() -> None:
    layer = ConvolutionSpec(256, 32, 32, 256, 3, 3, padding_height=1, padding_width=1)
    estimates = RooflineEstimates(attained_share=1.0, launch_seconds=0.0)

    seconds = estimates.layer_seconds(layer, [8, 2], Pass.FORWARD, DEVICE)

    assert seconds == pytest.approx([2 * size * layer.multiply_adds / 1e12 for size in (8, 2)])


def test_layer_bound_by_bandwidth() -> None:
    layer = ConvolutionSpec(64, 32, 32, 64, 1, 1, groups=64)
    estimates = RooflineEstimates(attained_share=1.0, launch_seconds=1e-6)

    seconds = estimates.layer_seconds(layer, [1, 8], Pass.BACKWARD_DATA, DEVICE)

    assert seconds == pytest.approx(
        [4 * (size * 2 * 64 * 1024 + 64) / 1e11 + 1e-6 for size in (1, 8)]
    )


def test_iteration_is_the_sum_of_its_operations() -> None:
    estimates = RooflineEstimates(attained_share=0.5, launch_seconds=1e-3)

    seconds = estimates.iteration_seconds(NETWORK, [4, 1], DEVICE)

    def expected(size: int) -> float:
        arithmetic = 2 * size * 1e9 / 1e12
        traffic = (size * 1e8 + 5e8) / 1e11
        return (arithmetic + traffic) / 0.5 + 4e-3

    assert seconds == pytest.approx([expected(4), expected(1)])


def test_largest_batch_is_what_the_parameters_leave() -> None:
    # 12 MiB for weights, gradients and momentum; a MiB for each example.
    assert RooflineEstimates().largest_batch(NETWORK, DEVICE) == 988


def test_largest_batch_of_unknown_memory_is_unknown() -> None:
    assert (
        RooflineEstimates().largest_batch(NETWORK, replace(DEVICE, usable_memory_mib=None)) is None
    )


def test_network_larger_than_the_memory_fits_with_no_batch() -> None:
    assert RooflineEstimates().largest_batch(NETWORK, replace(DEVICE, usable_memory_mib=8.0)) == 0


@pytest.mark.parametrize("kind", list(DeviceKind))
def test_device_without_rates_gets_ordinary_ones(kind: DeviceKind) -> None:
    unknown = replace(DEVICE, kind=kind, fp32_tflops=None, bandwidth_gb_s=None)

    (seconds,) = RooflineEstimates().iteration_seconds(NETWORK, [1], unknown)

    assert 0 < seconds < 10


def test_better_estimates_can_be_registered(registered: None) -> None:
    class Better(RooflineEstimates):
        pass

    better: Estimates = Better()
    register_estimates(better)

    assert current_estimates() is better
