"""A traced network as the physical quantities of one iteration, independent of the device.

The trace counts calls and bytes of every ATen operation; here they become a dozen totals per
batch: bytes by kind of operation, matrix products, kernels launched, operations dispatched by the
host, parameters. Convolutions stay layers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarking.specs import (
    FLOAT32_BYTES,
    ConvolutionSpec,
    ConvolutionUse,
    OperationSpec,
    Pass,
    Phase,
    TracedNetwork,
)
from regression.aten_operations import (
    CONVOLUTIONS,
    COPIES,
    MATRIX_PRODUCTS,
    VIEWS,
    norm_or_pool,
)
from regression.layer_features import PASS_CODES, FloatArray, LayerTable

MEMORY_GROUPS: tuple[str, ...] = (
    "norm",
    "norm_backward",
    "pool",
    "pool_backward",
    "elementwise",
    "copy",
    "bias",
)

_PROFILER_MARKS = frozenset({"_record_function_enter_new", "_record_function_exit"})
_WITHOUT_KERNEL = VIEWS | _PROFILER_MARKS | {"unfold"}
_UNSEEN_BY_HOST = _PROFILER_MARKS | {"detach"}
_COPIES = COPIES | {
    "constant_pad_nd_backward",
    "reflection_pad2d",
    "upsample_nearest2d",
    "split_backward",
}


def memory_group(operation: OperationSpec) -> str | None:
    """Kind of traffic of an operation; ``None`` for convolutions, matrix products and views."""
    name = operation.name
    if name in MATRIX_PRODUCTS or name in CONVOLUTIONS or name in _WITHOUT_KERNEL:
        return None
    return norm_or_pool(operation) or ("copy" if name in _COPIES else "elementwise")


@dataclass(frozen=True, slots=True)
class NetworkTerms:
    """Quantities of one iteration; pairs are (part per example, fixed part).

    ``layers`` holds each unique layer once at batch size 1; ``pass_counts`` is of shape
    (layers, 3), how often an iteration runs each pass.
    """

    layers: LayerTable
    pass_counts: FloatArray
    memory_bytes: dict[str, tuple[float, float]]
    matrix_multiply_adds: float
    matrix_bytes: tuple[float, float]
    forward_operations: int
    backward_operations: int
    view_operations: int
    kernels: int
    parameter_bytes: float
    parameter_tensors: int
    input_bytes: float

    @property
    def depthwise(self) -> NDArray[np.bool_]:
        """Layers with one input channel a group, which run in kernels of their own."""
        return (self.layers.groups > 1) & (self.layers.groups == self.layers.in_channels)

    @property
    def grouped(self) -> NDArray[np.bool_]:
        """Layers with several, but wider, groups."""
        return (self.layers.groups > 1) & ~self.depthwise

    def group_bytes(self, group: str, batch_sizes: FloatArray) -> FloatArray:
        """Bytes that the operations of a group move in an iteration, in FP32."""
        per_example, fixed = self.memory_bytes[group]
        return per_example * batch_sizes + fixed


def network_terms(network: TracedNetwork) -> NetworkTerms:
    """The terms of a traced network."""
    memory_bytes = dict.fromkeys(MEMORY_GROUPS, (0.0, 0.0))
    matrix_bytes = (0.0, 0.0)
    matrix_multiply_adds = 0.0
    forward = backward = views = kernels = 0
    for operation in network.operations:
        if operation.phase is Phase.OPTIMIZER:
            continue
        traffic = (operation.bytes_per_example, operation.bytes_fixed)
        group = memory_group(operation)
        if group is not None:
            memory_bytes[group] = _plus(memory_bytes[group], traffic)
        if operation.name in MATRIX_PRODUCTS:
            matrix_bytes = _plus(matrix_bytes, traffic)
            matrix_multiply_adds += operation.multiply_adds_per_example
        if operation.name in _UNSEEN_BY_HOST:
            continue
        if operation.name in _WITHOUT_KERNEL:
            views += operation.calls
            continue
        kernels += operation.calls * (2 if operation.name == "convolution_backward" else 1)
        if operation.phase is Phase.FORWARD:
            forward += operation.calls
        else:
            backward += operation.calls
    memory_bytes["bias"] = (_bias_bytes(network.convolutions), 0.0)
    layers, counts = _unique_layers(network.convolutions)
    return NetworkTerms(
        layers=layers,
        pass_counts=counts,
        memory_bytes=memory_bytes,
        matrix_multiply_adds=matrix_multiply_adds,
        matrix_bytes=matrix_bytes,
        forward_operations=forward,
        backward_operations=backward,
        view_operations=views,
        kernels=kernels,
        parameter_bytes=float(FLOAT32_BYTES * network.parameters),
        parameter_tensors=network.parameter_tensors,
        input_bytes=float(FLOAT32_BYTES * 3 * network.image_size**2),
    )


def _plus(total: tuple[float, float], part: tuple[float, float]) -> tuple[float, float]:
    return (total[0] + part[0], total[1] + part[1])


def _bias_bytes(uses: tuple[ConvolutionUse, ...]) -> float:
    """Bytes per example of adding biases to outputs, and of summing gradients up for them."""
    outputs = sum(use.count * use.layer.output_elements for use in uses if use.layer.bias)
    return 3.0 * FLOAT32_BYTES * outputs


def _unique_layers(uses: tuple[ConvolutionUse, ...]) -> tuple[LayerTable, FloatArray]:
    positions: dict[ConvolutionSpec, int] = {}
    specs: list[ConvolutionSpec] = []
    for use in uses:
        if use.layer not in positions:
            positions[use.layer] = len(specs)
            specs.append(use.layer)
    counts = np.zeros((len(specs), len(Pass)))
    for use in uses:
        for each in use.passes:
            counts[positions[use.layer], PASS_CODES[each]] += use.count
    return LayerTable.from_specs(specs, [1] * len(specs)), counts
