"""Devices, layers and traces small enough to compute by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from benchmarking.specs import (
    ConvolutionSpec,
    ConvolutionUse,
    DeviceKind,
    DeviceSpec,
    OperationSpec,
    Optimizer,
    Phase,
    Precision,
    TracedNetwork,
)
from regression.layer_features import FloatArray, LayerTable, Rates
from regression.public_data.layer_timings import DEEPBENCH, LayerTimings
from regression.step_calibration import Collection, StepContext, chip_of
from regression.step_rows import IterationWork
from regression.step_terms import NetworkTerms, network_terms
from regression.step_training import StepExample

VOLTA = DeviceSpec(
    slug="volta",
    kind=DeviceKind.CUDA,
    usable_memory_mib=16160.0,
    fp32_tflops=15.7,
    bandwidth_gb_s=900.0,
    multiprocessors=80,
    clock_mhz=1530.0,
    compute_capability=7.0,
    fp16_tflops=125.0,
    l2_mib=6.0,
    tdp_watts=300.0,
)
AMPERE = dataclasses.replace(
    VOLTA,
    slug="ampere",
    fp32_tflops=19.5,
    tf32_tflops=156.0,
    fp16_tflops=312.0,
    bandwidth_gb_s=1555.0,
    multiprocessors=108,
    compute_capability=8.0,
    l2_mib=40.0,
)
CPU = DeviceSpec("cpu", DeviceKind.CPU, 8192.0, 0.1, 20.0)
DEVICES = {device.slug: device for device in (VOLTA, AMPERE)}

STEM = ConvolutionSpec(3, 224, 224, 64, 7, 7, 2, 2, 3, 3)
BLOCK = ConvolutionSpec(64, 56, 56, 64, 3, 3, 1, 1, 1, 1)
DEPTHWISE = ConvolutionSpec(64, 56, 56, 64, 3, 3, 1, 1, 1, 1, groups=64)


def small_network(slug: str = "small", blocks: int = 8, **changes: Any) -> TracedNetwork:
    """A stem and equal blocks, each followed by a norm and an activation."""
    pixels = 64 * 56 * 56 * 4.0
    network = TracedNetwork(
        slug=slug,
        family="small",
        image_size=224,
        parameters=1_000_000,
        parameter_tensors=3 * blocks,
        multiply_adds=STEM.multiply_adds + blocks * BLOCK.multiply_adds,
        saved_bytes_per_example=2.0 * pixels * blocks,
        saved_bytes_fixed=0.0,
        saved_bytes_amp_per_example=pixels * blocks,
        saved_bytes_amp_fixed=2_000_000.0,
        convolutions=(
            ConvolutionUse(STEM, 1, needs_input_gradient=False),
            ConvolutionUse(BLOCK, blocks),
        ),
        operations=(
            OperationSpec("convolution", Phase.FORWARD, blocks + 1, pixels, 0.0, 1.0),
            OperationSpec("native_batch_norm", Phase.FORWARD, blocks, 2 * pixels * blocks, 512.0),
            OperationSpec("relu_", Phase.FORWARD, blocks, 2 * pixels * blocks, 0.0),
            OperationSpec("addmm", Phase.FORWARD, 1, 8192.0, 2_048_000.0, 512_000.0),
            OperationSpec("view", Phase.FORWARD, 1, 0.0, 0.0),
            OperationSpec("convolution_backward", Phase.BACKWARD, blocks + 1, pixels, 0.0, 2.0),
            OperationSpec(
                "native_batch_norm_backward", Phase.BACKWARD, blocks, 3 * pixels * blocks, 512.0
            ),
            OperationSpec("threshold_backward", Phase.BACKWARD, blocks, 3 * pixels * blocks, 0.0),
            OperationSpec("mm", Phase.BACKWARD, 2, 16384.0, 4_096_000.0, 1_024_000.0),
            OperationSpec("add_", Phase.OPTIMIZER, 3 * blocks, 0.0, 12_000_000.0),
        ),
    )
    return dataclasses.replace(network, **changes)


def random_layers(count: int, seed: int = 1) -> LayerTable:
    """Ordinary dense 3x3 and 1x1 layers of all sizes."""
    generator = np.random.default_rng(seed)
    kernel = generator.choice([1.0, 3.0], count)
    extent = generator.choice([7.0, 14.0, 28.0, 56.0], count)
    ones = np.ones(count)
    return LayerTable(
        batch=generator.choice([8.0, 16.0, 64.0], count),
        in_channels=generator.choice([64.0, 128.0, 256.0], count),
        in_height=extent,
        in_width=extent,
        out_channels=generator.choice([64.0, 128.0, 256.0], count),
        kernel_height=kernel,
        kernel_width=kernel,
        stride=ones,
        out_height=extent,
        out_width=extent,
        groups=ones,
    )


def roofline_timings(
    device: DeviceSpec,
    slowdown: float,
    precision: Precision = Precision.FP32,
    count: int = 300,
    seed: int = 1,
) -> list[LayerTimings]:
    """Timings of all passes at so many times the roofline."""
    layers = random_layers(count, seed)
    roofline: FloatArray = Rates.of(device, precision).roofline_ms(layers)
    return [
        LayerTimings(
            device.slug,
            precision,
            DEEPBENCH,
            layers,
            np.full(count, code),
            0.005 + roofline * slowdown,
        )
        for code in range(3)
    ]


TERMS_OF = {f"net{i}": network_terms(small_network(f"net{i}", blocks=4 + i)) for i in range(10)}


def example(
    network: str = "net1",
    device: DeviceSpec = VOLTA,
    batch: int = 16,
    milliseconds: float = 10.0,
    precision: Precision = Precision.FP32,
    terms: NetworkTerms | None = None,
) -> StepExample:
    """A published iteration of one of ``TERMS_OF``."""
    return StepExample(
        network=network,
        family="small family",
        terms=terms or TERMS_OF[network],
        device=device,
        context=StepContext(chip_of(device), precision, Collection.TIMM, f"host {device.slug}"),
        work=IterationWork.forecast(precision, Optimizer.SGD),
        batch_size=batch,
        milliseconds=milliseconds,
    )
