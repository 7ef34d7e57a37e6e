"""Operators on shapes and small constants, which are computed while the graph is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarking.onnx_import.errors import OnnxError
from benchmarking.onnx_import.graph import LARGEST_CONSTANT_ELEMENTS, Array, Node, StoredTensor
from benchmarking.onnx_import.lowering import COMPUTATIONS, GraphRun, lowers

Attributes = Mapping[str, Any]

_WHOLE_NUMBERS = frozenset({2, 3, 4, 5, 6, 7, 12, 13})
"""Codes of the integer types in ONNX."""


@lowers("Constant")
def constant(run: GraphRun, node: Node) -> None:
    """A value inside the node; a large one may be a weight."""
    attributes = node.attributes
    value = attributes.get("value")
    if isinstance(value, StoredTensor):
        run.stored[node.outputs[0]] = value
        if value.value is not None:
            run.constants[node.outputs[0]] = value.value
        return
    for name in ("value_int", "value_float", "value_ints", "value_floats"):
        if name in attributes:
            run.put_constant(node, attributes[name])
            return
    raise ValueError("value of a constant")


@lowers("Shape")
def shape(run: GraphRun, node: Node) -> None:
    """The extents of a tensor."""
    name = node.input(0)
    if name in run.tensors:
        extents: tuple[int, ...] = run.tensors[name].shape
    elif name in run.stored:
        extents = run.stored[name].shape
    else:
        extents = run.constants[name].shape
    window = slice(node.attributes.get("start", 0), node.attributes.get("end"))
    run.put_constant(node, np.array(extents[window], dtype=np.int64))


@lowers("Size")
def size(run: GraphRun, node: Node) -> None:
    """The number of elements."""
    run.put_constant(node, run.tensor(node, 0).elements)


@lowers("ConstantOfShape")
def constant_of_shape(run: GraphRun, node: Node) -> None:
    """Equal values; of a large tensor only the shape matters."""
    target = run.integers(node, 0) or ()
    stored = node.attributes.get("value")
    fill = 0.0 if stored is None or stored.value is None else stored.value.ravel()[0]
    if math.prod(target) <= LARGEST_CONSTANT_ELEMENTS:
        run.put_constant(node, np.full(target, fill))
    else:
        run.put_shape(node, target)


@lowers("Identity", "CastLike", "Cast")
def identity(run: GraphRun, node: Node) -> None:
    """The same tensor; changes of type are left to the precision of the forecast."""
    name = node.input(0)
    if name not in run.tensors and name not in run.constants and name not in run.stored:
        raise ValueError("nothing to copy")
    run.alias(node.outputs[0], name)


@lowers("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Not")
def mask(run: GraphRun, node: Node) -> None:
    """A comparison of random numbers is the mask of a dropout."""
    for name in node.inputs:
        if name in run.masks:
            run.alias(node.outputs[0], name)
            return
    raise OnnxError(
        f"{node.op_type} is covered for shapes, constants and dropout only, not for images.",
        code="unsupported_operator",
    )


def _gathered(attributes: Attributes, value: Array, chosen: Array) -> Array:
    return np.take(value, chosen.astype(np.int64), axis=int(attributes.get("axis", 0)))


def _numbers(attributes: Attributes, start: Array, end: Array, step: Array) -> Array:
    numbers = range(int(start), int(end), int(step))
    if len(numbers) > LARGEST_CONSTANT_ELEMENTS:
        raise OnnxError("A Range in the graph gives too many numbers.", code="bad_node")
    return np.array(numbers, dtype=np.int64)


def _quotient(attributes: Attributes, left: Array, right: Array) -> Array:
    if left.dtype.kind in "iu" and right.dtype.kind in "iu":
        return np.trunc(left / right).astype(np.int64)
    return np.asarray(left / right)


def _joined(attributes: Attributes, *values: Array) -> Array:
    return np.concatenate(
        [np.atleast_1d(value) for value in values], axis=int(attributes.get("axis", 0))
    )


def _cast(attributes: Attributes, value: Array) -> Array:
    return value.astype(np.int64) if int(attributes["to"]) in _WHOLE_NUMBERS else value


def _product(attributes: Attributes, value: Array, axes: Array | None = None) -> Array:
    return np.asarray(np.prod(value, keepdims=bool(attributes.get("keepdims", 1))))


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda attributes, *values: function(*values)


COMPUTATIONS.update(
    {
        "Cast": _cast,
        "Concat": _joined,
        "Div": _quotient,
        "Gather": _gathered,
        "Range": _numbers,
        "ReduceProd": _product,
    }
)
_PLAIN: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "And": np.logical_and,
    "Ceil": np.ceil,
    "Equal": np.equal,
    "Floor": np.floor,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mod": np.mod,
    "Mul": np.multiply,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Sqrt": np.sqrt,
    "Sub": np.subtract,
    "Where": np.where,
}
COMPUTATIONS.update({op_type: _plain(function) for op_type, function in _PLAIN.items()})
