"""Shapes of the results of the operations that CNNs run most.

PyTorch derives the shape of a result on ``meta`` with decompositions in Python that cost up to
a millisecond a call: minutes over all networks and image sizes. The rules here answer the plain
cases (contiguous tensors of equal shapes) at once and decline everything else, which PyTorch
then answers itself. Tests compare each rule with PyTorch's answer.

A recipe is ``(shape, dtype)`` of a contiguous tensor, ``None`` for a result that is none, or a
tuple of these for operations with several results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Recipe = Any

_ARITHMETIC = ("add", "sub", "mul", "div")
_ACTIVATIONS = ("relu", "sigmoid", "silu", "gelu", "hardswish", "hardsigmoid")
_ACTIVATION_GRADIENTS = (
    "threshold_backward",
    "sigmoid_backward",
    "silu_backward",
    "gelu_backward",
    "hardswish_backward",
    "hardsigmoid_backward",
)


def infer(func: Any, args: Sequence[Any]) -> Recipe | None:
    """The recipe of ``func(*args)``, or ``None`` where no rule applies."""
    rule = _RULES.get(func)
    return rule(args) if rule is not None else None


def is_plain_inplace(func: Any) -> bool:
    """Whether the operation writes its first argument, returns it and keeps its shape."""
    known = _PLAIN_INPLACE.get(func)
    if known is None:
        schema = func._schema
        name = func.overloadpacket.__name__
        first = schema.arguments[0].alias_info if schema.arguments else None
        known = (
            name.endswith("_")
            and not name.endswith("__")
            and name not in _RESHAPING
            and len(schema.returns) == 1
            and first is not None
            and first.is_write
        )
        _PLAIN_INPLACE[func] = known
    return known


_PLAIN_INPLACE: dict[Any, bool] = {}

_RESHAPING = frozenset(
    {"as_strided_", "resize_", "resize_as_", "set_", "squeeze_", "swapaxes_", "swapdims_"}
    | {"t_", "transpose_", "unsqueeze_", "detach_", "requires_grad_"}
)


def _pointwise(args: Sequence[Any]) -> Recipe | None:
    first = args[0]
    if not first.is_floating_point() or not first.is_contiguous():
        return None
    for other in args[1:]:
        if isinstance(other, torch.Tensor) and (
            other.shape != first.shape or other.dtype != first.dtype or not other.is_contiguous()
        ):
            return None
    return first.shape, first.dtype


def _batch_norm(args: Sequence[Any]) -> Recipe | None:
    examples, training = args[0], args[5]
    if not training or not examples.is_contiguous() or not examples.is_floating_point():
        return None
    statistics = ((examples.shape[1],), torch.float32)
    return (examples.shape, examples.dtype), statistics, statistics


def _batch_norm_backward(args: Sequence[Any]) -> Recipe | None:
    examples, weight, mask = args[1], args[2], args[9]
    if not examples.is_contiguous() or not args[0].is_contiguous() or weight is None:
        return None
    parameter = (weight.shape, weight.dtype)
    return (
        (examples.shape, examples.dtype) if mask[0] else None,
        parameter if mask[1] else None,
        parameter if mask[2] else None,
    )


def _convolution(args: Sequence[Any]) -> Recipe | None:
    examples, weight, _, stride, padding, dilation, transposed, _, groups = args
    if (
        transposed
        or weight.dim() != 4
        or examples.dim() != 4
        or not examples.is_contiguous()
        or not weight.is_contiguous()
        or examples.shape[1] != weight.shape[1] * groups
        or not len(stride) == len(padding) == len(dilation) == 2
    ):
        return None
    extents = [
        (size + 2 * pad - step * (kernel - 1) - 1) // jump + 1
        for size, kernel, jump, pad, step in zip(
            examples.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True
        )
    ]
    if min(extents) < 1:
        return None
    return (examples.shape[0], weight.shape[0], *extents), examples.dtype


def _convolution_backward(args: Sequence[Any]) -> Recipe | None:
    gradient, examples, weight, mask = args[0], args[1], args[2], args[10]
    if weight.dim() != 4 or not all(
        tensor.is_contiguous() for tensor in (gradient, examples, weight)
    ):
        return None
    return (
        (examples.shape, examples.dtype) if mask[0] else None,
        (weight.shape, weight.dtype) if mask[1] else None,
        ((weight.shape[0],), weight.dtype) if mask[2] else None,
    )


def rules() -> Mapping[Any, Callable[[Sequence[Any]], Recipe | None]]:
    """Every operation that has a rule, with the rule: arguments -> recipe or ``None``."""
    aten = torch.ops.aten
    by_operation: dict[Any, Callable[[Sequence[Any]], Recipe | None]] = {
        aten.native_batch_norm.default: _batch_norm,
        aten.native_batch_norm_backward.default: _batch_norm_backward,
        aten.convolution.default: _convolution,
        aten.convolution_backward.default: _convolution_backward,
    }
    for name in _ARITHMETIC:
        by_operation[getattr(aten, name).Tensor] = _pointwise
        by_operation[getattr(aten, name).Scalar] = _pointwise
    for name in (*_ACTIVATIONS, *_ACTIVATION_GRADIENTS):
        by_operation[getattr(aten, name).default] = _pointwise
    return by_operation


_RULES = rules()
