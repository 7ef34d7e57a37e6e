"""What an iteration does beside its convolutions, as numbers of a traced network.

Every traced operation belongs to one group by what limits it: bytes to move, multiply-adds,
or merely being launched. A column of a :class:`FeatureTable` is the total of a group at one
batch size: megabytes (1e6 bytes) unless its name says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from benchmarking.specs import FLOAT32_BYTES, OperationSpec, Optimizer, Phase, TracedNetwork
from regression.aten_operations import (
    CONVOLUTIONS,
    COPIES,
    MATRIX_PRODUCTS,
    VIEWS,
    norm_or_pool,
)
from regression.convolution import ConvolutionKind, ConvolutionSum

FloatArray = NDArray[np.float64]

MEGA = 1e6

LARGE_TENSOR_BYTES = 32 * 2**20
"""glibc maps larger blocks anew for every allocation (DEFAULT_MMAP_THRESHOLD_MAX on 64 bits)."""

ADAMW_TRAFFIC = 21 / 11
"""Element reads and writes per parameter of AdamW's step over those of SGD's, both as traced."""

BYTE_GROUPS = (
    "elementwise",
    "activation",
    "smooth_activation",
    "copy",
    "norm",
    "norm_backward",
    "pool",
    "pool_backward",
    "matmul",
    "optimizer",
)
_CONVOLUTION_COLUMNS = tuple(f"{kind}_convolution_ms" for kind in ConvolutionKind)
COLUMNS = (
    *BYTE_GROUPS,
    "matmul_weights",
    "matmul_mega_multiply_adds",
    "operations",
    "host_operations",
    "large_tensors",
    "saved",
    *_CONVOLUTION_COLUMNS,
)

_MATRIX_PRODUCTS = MATRIX_PRODUCTS | {"mv", "addmv", "dot"}
_ACTIVATIONS = frozenset(
    "relu relu_ threshold_backward hardtanh hardtanh_ hardtanh_backward clamp clamp_".split()
)
_SMOOTH_ACTIVATIONS = frozenset(
    """silu silu_ silu_backward gelu gelu_backward sigmoid sigmoid_ sigmoid_backward
    hardswish hardswish_ hardswish_backward hardsigmoid hardsigmoid_ hardsigmoid_backward
    tanh tanh_ tanh_backward elu elu_ elu_backward mish mish_ mish_backward""".split()
)
_COPIES = COPIES | {"zeros", "new_zeros", "zero_", "fill_", "zeros_like", "ones_like"}
_WITHOUT_WORK = VIEWS | {"empty_strided", "new_empty", "new_empty_strided"}


def operation_group(operation: OperationSpec) -> str | None:
    """The byte group of an operation; ``None`` for convolutions, views and bare allocations."""
    name = operation.name
    if operation.phase is Phase.OPTIMIZER:
        return "optimizer"
    if name in CONVOLUTIONS or name in _WITHOUT_WORK:
        return None
    if name in _MATRIX_PRODUCTS:
        return "matmul"
    if group := norm_or_pool(operation):
        return group
    if name in _COPIES:
        return "copy"
    if name in _SMOOTH_ACTIVATIONS:
        return "smooth_activation"
    return "activation" if name in _ACTIVATIONS else "elementwise"


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """Rows of features, one for each network and batch size.

    ``values`` is of shape (rows, columns) in the order of ``COLUMNS``; ``architectures``,
    ``families`` and ``batch_sizes`` are of shape (rows,).
    """

    architectures: NDArray[np.str_]
    families: NDArray[np.str_]
    batch_sizes: FloatArray
    values: FloatArray

    def __len__(self) -> int:
        return len(self.batch_sizes)

    def column(self, name: str) -> FloatArray:
        """One column by its name, of shape (rows,)."""
        return self.values[:, COLUMNS.index(name)]

    def columns(self, names: Sequence[str]) -> FloatArray:
        """Several columns by name, of shape (rows, names)."""
        return self.values[:, [COLUMNS.index(name) for name in names]]

    @property
    def convolution_ms(self) -> FloatArray:
        """Sum of the convolutions' times, of shape (rows,)."""
        return self.columns(_CONVOLUTION_COLUMNS).sum(axis=1)

    def convolution_kinds_ms(self) -> FloatArray:
        """Convolution times by kind, of shape (rows, kinds)."""
        return self.columns(_CONVOLUTION_COLUMNS)

    def rows(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Self:
        """The chosen rows as a table of their own."""
        return type(self)(
            self.architectures[chosen],
            self.families[chosen],
            self.batch_sizes[chosen],
            self.values[chosen],
        )

    @classmethod
    def concatenate(cls, tables: Sequence[Self]) -> Self:
        """The rows of several tables, in order. Raises ``ValueError`` without any table."""
        if not tables:
            raise ValueError("no feature rows to join")
        return cls(
            np.concatenate([table.architectures for table in tables]),
            np.concatenate([table.families for table in tables]),
            np.concatenate([table.batch_sizes for table in tables]),
            np.concatenate([table.values for table in tables]),
        )


def feature_table(
    network: TracedNetwork,
    convolutions: Sequence[ConvolutionSum],
    optimizer: Optimizer = Optimizer.SGD,
) -> FeatureTable:
    """The features of a network at the batch sizes of its convolution sums."""
    batch_sizes = np.array([each.batch_size for each in convolutions], dtype=float)
    columns = _operation_columns(network, batch_sizes, optimizer)
    columns["large_tensors"] = _large_share(network, batch_sizes) * columns["saved"]
    for kind, name in zip(ConvolutionKind, _CONVOLUTION_COLUMNS, strict=True):
        columns[name] = np.array([each.kind_ms[kind] for each in convolutions], dtype=float)
    return FeatureTable(
        np.full(len(batch_sizes), network.slug),
        np.full(len(batch_sizes), network.family),
        batch_sizes,
        np.column_stack([columns[name] for name in COLUMNS]).reshape(-1, len(COLUMNS)),
    )


def _operation_columns(
    network: TracedNetwork, batch_sizes: FloatArray, optimizer: Optimizer
) -> dict[str, FloatArray]:
    columns = {name: np.zeros(len(batch_sizes)) for name in COLUMNS}
    for operation in network.operations:
        if operation.name not in _WITHOUT_WORK:
            columns["host_operations"] += operation.calls
        group = operation_group(operation)
        if group is None:
            continue
        moved = operation.bytes_per_example * batch_sizes + operation.bytes_fixed
        if group == "optimizer" and optimizer is Optimizer.ADAMW:
            moved = moved * ADAMW_TRAFFIC
        columns[group] += moved / MEGA
        columns["operations"] += operation.calls
        if group == "matmul":
            columns["matmul_weights"] += operation.bytes_fixed / MEGA
            columns["matmul_mega_multiply_adds"] += (
                operation.multiply_adds_per_example * batch_sizes / MEGA
            )
    columns["saved"] = network.saved_bytes_per_example * batch_sizes / MEGA
    return columns


def _large_share(network: TracedNetwork, batch_sizes: FloatArray) -> FloatArray:
    """Share of the activations' bytes in tensors above ``LARGE_TENSOR_BYTES``, 0 to 1.

    A trace keeps no tensor's size; the inputs and outputs of the convolutions stand for all.
    """
    bytes_per_example = np.array(
        [
            FLOAT32_BYTES * elements
            for use in network.convolutions
            for elements in (use.layer.input_elements, use.layer.output_elements)
        ],
        dtype=float,
    )
    weights = bytes_per_example * np.repeat([use.count for use in network.convolutions], 2)
    total = weights.sum()
    if total <= 0:
        return np.zeros(len(batch_sizes))
    large = bytes_per_example[None, :] * batch_sizes[:, None] > LARGE_TENSOR_BYTES
    return np.asarray((large * weights).sum(axis=1) / total)
