"""From a network on a device to the milliseconds of each physical term at peak rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarking.specs import DeviceSpec, Optimizer, Precision
from regression.layer_features import FloatArray, LayerTable, Rates
from regression.step_calibration import KERNEL_CLASSES, PASS_NAMES, TERMS
from regression.step_terms import MEMORY_GROUPS, NetworkTerms

_POSITION = {term: i for i, term in enumerate(TERMS)}
_HOST_TO_DEVICE_GB_S = 6.0
_STATE_TRAFFIC = {Optimizer.SGD: 5.0, Optimizer.ADAMW: 7.0}
"""Times that an update reads or writes a parameter's bytes: weight, gradient and moments."""
PLAIN_SGD_TRAFFIC = 3.0
ZERO_GRADIENT_TRAFFIC = 0.5
_AMP_CAST_TRAFFIC = 3.0
"""Autocast reads FP32 weights and writes half ones (1.5), and gradients the other way (1.5)."""


@dataclass(frozen=True, slots=True)
class IterationWork:
    """What an iteration does beside the network: optimizer traffic, copy of the batch, casts."""

    optimizer_traffic: float
    dispatches_optimizer: bool
    has_copy: bool
    has_casts: bool

    @classmethod
    def forecast(cls, precision: Precision, optimizer: Optimizer) -> IterationWork:
        """The iteration that a forecast is about: the batch is on the device already."""
        return cls(
            optimizer_traffic=_STATE_TRAFFIC[optimizer],
            dispatches_optimizer=True,
            has_copy=False,
            has_casts=precision is Precision.AMP,
        )


def kernel_classes(layers: LayerTable) -> FloatArray:
    """One row per kernel class (1x1; 3x3 of stride 1; other), 1.0 where a layer is of it."""
    one = (layers.kernel_height * layers.kernel_width) == 1
    three = (layers.kernel_height == 3) & (layers.kernel_width == 3) & (layers.stride == 1)
    return np.array([one, three, ~(one | three)], dtype=float)


def iteration_terms(
    device: DeviceSpec,
    network: NetworkTerms,
    batch_sizes: FloatArray,
    precision: Precision,
    convolution_ms: FloatArray,
    work: IterationWork,
) -> FloatArray:
    """Term matrix of one network on one device, shape (batch sizes, len(TERMS)).

    ``convolution_ms`` is of shape (layers, batch sizes, 3): one call of each pass.
    """
    rates = Rates.of(device, precision)
    bandwidth = rates.bandwidth_gb_s
    width = rates.element_bytes / 4.0
    terms = np.zeros((len(batch_sizes), len(TERMS)))

    dense = network.layers.groups == 1
    spent = convolution_ms * network.pass_counts[:, None, :]
    for row, kernel in enumerate(KERNEL_CLASSES):
        member = kernel_classes(network.layers)[row] * dense
        totals = np.einsum("l,lbp->bp", member, spent)
        for column, name in enumerate(PASS_NAMES):
            terms[:, _POSITION[f"convolution_{name}_{kernel}"]] = totals[:, column]

    layers = network.layers
    if not dense.all():
        crossed = layers.crossed_with(batch_sizes)
        shape = (len(layers), len(batch_sizes))
        traffic = (1e-6 * crossed.elements * rates.element_bytes / bandwidth).reshape(shape)
        arithmetic = (2e-9 * crossed.multiply_adds / (device.fp32_tflops or 1.0)).reshape(shape)
        counts = network.pass_counts
        depthwise, grouped = network.depthwise, network.grouped
        terms[:, _POSITION["depthwise_forward"]] = (counts[:, 0] * depthwise) @ traffic
        terms[:, _POSITION["depthwise_backward"]] = (counts[:, 1:].sum(1) * depthwise) @ traffic
        terms[:, _POSITION["grouped"]] = (counts.sum(1) * grouped) @ np.maximum(traffic, arithmetic)

    matrix_bytes = network.matrix_bytes[0] * batch_sizes + network.matrix_bytes[1]
    terms[:, _POSITION["matrix"]] = np.maximum(
        2e-9 * network.matrix_multiply_adds * batch_sizes / rates.peak_tflops,
        1e-6 * width * matrix_bytes / bandwidth,
    )
    for group in MEMORY_GROUPS:
        moved = network.group_bytes(group, batch_sizes)
        terms[:, _POSITION[group]] = 1e-6 * width * moved / bandwidth

    traffic_per_byte = work.optimizer_traffic + (_AMP_CAST_TRAFFIC if work.has_casts else 0.0)
    terms[:, _POSITION["optimizer"]] = 1e-6 * network.parameter_bytes * traffic_per_byte / bandwidth
    terms[:, _POSITION["kernels"]] = network.kernels / 1000.0
    terms[:, _POSITION["host_forward"]] = network.forward_operations / 1000.0
    terms[:, _POSITION["host_backward"]] = network.backward_operations / 1000.0
    terms[:, _POSITION["host_views"]] = network.view_operations / 1000.0
    if work.dispatches_optimizer:
        terms[:, _POSITION["host_tensors"]] = network.parameter_tensors / 1000.0
    if work.has_copy:
        terms[:, _POSITION["host_to_device"]] = (
            1e-6 * network.input_bytes * batch_sizes / _HOST_TO_DEVICE_GB_S
        )
    terms[:, _POSITION["constant"]] = 1.0
    return terms


def layers_at_batch(network: NetworkTerms, batch_size: int) -> LayerTable:
    """The network's unique layers at one batch size."""
    return network.layers.crossed_with(np.array([float(batch_size)]))
