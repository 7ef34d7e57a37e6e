"""Records what an iteration computes: every ATen operation with its shapes, in order.

Works below autograd, on ``meta`` tensors: they have shapes and no data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarking.specs import ConvolutionSpec, Phase
from benchmarking.tracing.assembly import OperationTotals
from benchmarking.tracing.errors import UntraceableError
from benchmarking.tracing.shape_memory import ShapeMemory, is_view

_ALLOCATIONS = frozenset(
    {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"}
)
"""Reserve memory and touch none of it."""

_OVERWRITES = frozenset(
    {"bernoulli_", "copy_", "fill_", "normal_", "random_", "uniform_", "zero_", "exponential_"}
)
"""Write their first argument without reading it."""

_SHAPE_ONLY = frozenset(
    {"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"}
    | {"new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided"}
)
"""Take a tensor for its shape and type alone."""

_MATRIX_PRODUCTS: Mapping[str, tuple[int, int]] = {
    "mm": (0, 1),
    "addmm": (1, 2),
    "bmm": (0, 1),
    "baddbmm": (1, 2),
    "mv": (0, 1),
    "addmv": (1, 2),
    "dot": (0, 1),
}
"""Positions of the two factors among the arguments."""

_BATCH_NORMS = frozenset(
    {"native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "batch_norm_with_update"}
)


class IterationRecorder(TorchDispatchMode):
    """Adds up an iteration's operations per name and phase, and lists its convolutions.

    Set :attr:`phase` as the iteration goes on. After it:

    - ``totals``: ``(phase, name)`` -> :class:`OperationTotals`
    - ``forward_convolutions``: layer -> number of calls
    - ``backward_convolutions``: ``(layer, needs_input_gradient, needs_weight_gradient)`` -> calls
    - ``normalizes_one_value``: whether a BatchNorm sees one value per channel and example

    ``memory`` may be shared between recorders to save time.
    """

    def __init__(self, memory: ShapeMemory | None = None) -> None:
        super().__init__()
        self.phase = Phase.FORWARD
        self.totals: dict[tuple[Phase, str], OperationTotals] = defaultdict(OperationTotals)
        self.forward_convolutions: dict[ConvolutionSpec, int] = defaultdict(int)
        self.backward_convolutions: dict[tuple[ConvolutionSpec, bool, bool], int] = defaultdict(int)
        self.normalizes_one_value = False
        self._memory = ShapeMemory() if memory is None else memory

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Leave the method unwrapped: nothing is compiled here, and the wrapper costs time."""
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        result = self._memory.evaluate(func, args, kwargs)
        if func.namespace == "profiler":
            return result
        name = func.overloadpacket.__name__
        totals = self.totals[self.phase, name]
        totals.calls += 1
        if not is_view(func):
            totals.bytes += _bytes_moved(name, func, args, kwargs, result)
            totals.multiply_adds += self._multiply_adds(name, args, kwargs)
            if name in _BATCH_NORMS:
                self._note_batch_norm(name, args)
        return result

    def _multiply_adds(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
        if name == "convolution":
            layer = _convolution(args[0], args[1], args[2] is not None, args[3:9])
            self.forward_convolutions[layer] += 1
            return layer.multiply_adds * int(args[0].shape[0])
        if name == "convolution_backward":
            bias_sizes = args[3]
            layer = _convolution(args[1], args[2], _has_bias(bias_sizes), args[4:10])
            needs_input, needs_weight, _ = args[10]
            self.backward_convolutions[layer, bool(needs_input), bool(needs_weight)] += 1
            return layer.multiply_adds * int(args[1].shape[0]) * (needs_input + needs_weight)
        if name in _MATRIX_PRODUCTS:
            left, right = (args[position] for position in _MATRIX_PRODUCTS[name])
            columns = int(right.shape[-1]) if right.dim() == left.dim() else 1
            return int(left.numel()) * columns
        return 0

    def _note_batch_norm(self, name: str, args: tuple[Any, ...]) -> None:
        examples = args[0]
        if examples.numel() == examples.shape[0] * examples.shape[1]:
            self.normalizes_one_value = True


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _distinct_bytes(tensor: torch.Tensor) -> int:
    """Bytes of the memory behind a tensor; an expanded dimension is read once."""
    elements = 1
    for extent, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if stride != 0:
            elements *= extent
        elif extent == 0:
            return 0
    return elements * tensor.element_size()


def _bytes_moved(
    name: str, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any
) -> int:
    """Bytes read plus bytes written, each argument and result counted once per direction."""
    if name in _ALLOCATIONS:
        return 0
    written = sum(_distinct_bytes(tensor) for tensor in _tensors(result))
    read_args = args[1:] if name in _OVERWRITES or name in _SHAPE_ONLY else args
    read = sum(_distinct_bytes(tensor) for tensor in _tensors(read_args))
    return written + read + sum(_distinct_bytes(t) for t in _tensors(tuple(kwargs.values())))


def _convolution(
    examples: torch.Tensor, weight: torch.Tensor, bias: bool, settings: Sequence[Any]
) -> ConvolutionSpec:
    """The layer of one ``aten.convolution`` call; ``settings`` are stride ... groups."""
    stride, padding, dilation, transposed, _, groups = settings
    if weight.dim() != 4:
        raise UntraceableError(
            f"it has a {weight.dim() - 2}-dimensional convolution; "
            "only two-dimensional convolutions are covered"
        )
    if transposed:
        raise UntraceableError("it has a transposed convolution, which is not covered")
    stride_height, stride_width = _pair(stride)
    padding_height, padding_width = _pair(padding)
    dilation_height, dilation_width = _pair(dilation)
    return ConvolutionSpec(
        in_channels=int(examples.shape[1]),
        in_height=int(examples.shape[2]),
        in_width=int(examples.shape[3]),
        out_channels=int(weight.shape[0]),
        kernel_height=int(weight.shape[2]),
        kernel_width=int(weight.shape[3]),
        stride_height=stride_height,
        stride_width=stride_width,
        padding_height=padding_height,
        padding_width=padding_width,
        dilation_height=dilation_height,
        dilation_width=dilation_width,
        groups=int(groups),
        bias=bias,
    )


def _pair(values: Sequence[int]) -> tuple[int, int]:
    return int(values[0]), int(values[-1])


def _has_bias(bias_sizes: Sequence[int] | None) -> bool:
    """Autograd passes ``[0]`` or nothing where a convolution has no bias."""
    return bias_sizes is not None and any(bias_sizes)
