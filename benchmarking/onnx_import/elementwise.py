"""Operators that work element by element, with the gradients PyTorch gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from benchmarking.onnx_import.graph import Node
from benchmarking.onnx_import.lowering import LOWERINGS, GraphRun, broadcast, lowers
from benchmarking.onnx_import.tape import Tape, Tensor


class Keeps(Enum):
    """What an operation keeps for its backward pass."""

    NOTHING = 0
    INPUT = 1
    RESULT = 2


@dataclass(frozen=True, slots=True)
class Unary:
    """An operation on one tensor.

    ``backward`` lists its gradient's operations with the number of full tensors that each reads
    (it writes one). ``in_place`` is the name of the variant that overwrites its input where that
    is customary; a variant that needs its input afterwards copies it first.
    """

    name: str
    keeps: Keeps
    backward: tuple[tuple[str, int], ...]
    in_place: str = ""
    in_float: bool = False


def _simple(name: str, keeps: Keeps, backward: str, in_place: str = "") -> Unary:
    return Unary(name, keeps, ((backward, 2),), in_place)


UNARY = {
    "Relu": _simple("relu", Keeps.RESULT, "threshold_backward", "relu_"),
    "LeakyRelu": _simple("leaky_relu", Keeps.RESULT, "leaky_relu_backward", "leaky_relu_"),
    "Elu": _simple("elu", Keeps.RESULT, "elu_backward", "elu_"),
    "Selu": _simple("elu", Keeps.RESULT, "elu_backward", "elu_"),
    "Celu": _simple("elu", Keeps.RESULT, "elu_backward", "elu_"),
    "Silu": _simple("silu", Keeps.INPUT, "silu_backward", "silu_"),
    "HardSwish": _simple("hardswish", Keeps.INPUT, "hardswish_backward", "hardswish_"),
    "Hardtanh": _simple("hardtanh", Keeps.INPUT, "hardtanh_backward", "hardtanh_"),
    "HardSigmoid": _simple("hardsigmoid", Keeps.INPUT, "hardsigmoid_backward"),
    "Sigmoid": _simple("sigmoid", Keeps.RESULT, "sigmoid_backward"),
    "Tanh": _simple("tanh", Keeps.RESULT, "tanh_backward"),
    "Gelu": _simple("gelu", Keeps.INPUT, "gelu_backward"),
    "Softplus": Unary("softplus", Keeps.INPUT, (("softplus_backward", 2),), in_float=True),
    "Softmax": Unary("_softmax", Keeps.RESULT, (("_softmax_backward_data", 2),), in_float=True),
    "LogSoftmax": Unary(
        "_log_softmax", Keeps.RESULT, (("_log_softmax_backward_data", 2),), in_float=True
    ),
    "Mish": Unary(
        "mish",
        Keeps.INPUT,
        (
            ("softplus", 1),
            ("tanh", 1),
            ("sigmoid", 1),
            ("mul", 2),
            ("fill_", 0),
            ("sub_", 2),
            ("mul", 2),
            ("mul", 2),
            ("add", 2),
            ("mul", 2),
        ),
    ),
    "Exp": Unary("exp", Keeps.RESULT, (("mul", 2),), in_float=True),
    "Log": Unary("log", Keeps.INPUT, (("div", 2),), in_float=True),
    "Sqrt": Unary("sqrt", Keeps.RESULT, (("mul", 1), ("div", 2))),
    "Neg": Unary("neg", Keeps.NOTHING, (("neg", 1),)),
    "Abs": Unary("abs", Keeps.INPUT, (("sgn", 1), ("mul", 2))),
    "Reciprocal": Unary(
        "reciprocal", Keeps.RESULT, (("neg", 1), ("mul", 2), ("mul", 2)), in_float=True
    ),
    "Erf": Unary("erf", Keeps.INPUT, (("pow", 1), ("neg", 1), ("exp", 1), ("mul", 1), ("mul", 2))),
    "Clamp": Unary("clamp", Keeps.INPUT, (("gt", 1), ("lt", 1), ("logical_and_", 1), ("where", 2))),
    "PowConstant": Unary("pow", Keeps.INPUT, (("pow", 1), ("mul", 1), ("mul", 2)), in_float=True),
    "MulScalar": Unary("mul", Keeps.NOTHING, (("mul", 1),)),
    "DivScalar": Unary("div", Keeps.NOTHING, (("div", 1),)),
    "AddScalar": Unary("add", Keeps.NOTHING, ()),
    "SubFromScalar": Unary("rsub", Keeps.NOTHING, (("neg", 1),)),
}
"""Derived from PyTorch's own iteration of each operation, as the tracer records it."""

_GRAPH_UNARY = frozenset(UNARY) - {
    "Silu",
    "Hardtanh",
    "Clamp",
    "PowConstant",
    "MulScalar",
    "DivScalar",
    "AddScalar",
    "SubFromScalar",
}


def apply_unary(tape: Tape, operation: Unary, operand: Tensor, *, in_place: bool = False) -> Tensor:
    """Run a unary operation on a tensor of any shape."""
    operand = tape.as_float(operand) if operation.in_float else operand
    result = tape.new(operand.shape, operand.element_bytes)
    if in_place and operation.in_place:
        if operation.keeps is Keeps.INPUT and operand.requires_grad:
            tape.emit("clone", (operand,), (result,))
        tape.emit(operation.in_place, (operand,), (result,))
    else:
        tape.emit(operation.name, (operand,), (result,))
    kept = {Keeps.NOTHING: (), Keeps.INPUT: (operand,), Keeps.RESULT: (result,)}[operation.keeps]

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        gradient = gradients[0]
        for name, reads in operation.backward:
            into = tape.new(operand.shape)
            tape.emit(name, (into,) * reads, (into,))
            gradient = into
        return (gradient,)

    tape.record((operand,), (result,), kept, backward)
    return result


def _unary(run: GraphRun, node: Node) -> None:
    operand = run.tensor(node, 0)
    run.put(
        node, apply_unary(run.tape, UNARY[node.op_type], operand, in_place=run.overwrites(node))
    )


for _op_type in sorted(_GRAPH_UNARY | {"Silu"}):
    LOWERINGS[_op_type] = _unary


@lowers("Clip")
def clip(run: GraphRun, node: Node) -> None:
    """Two bounds are a hard tanh such as ReLU6, one is a clamp."""
    low = node.attributes.get("min", node.input(1) or None)
    high = node.attributes.get("max", node.input(2) or None)
    both = low is not None and high is not None
    operand = run.tensor(node, 0)
    run.put(
        node,
        apply_unary(
            run.tape, UNARY["Hardtanh" if both else "Clamp"], operand, in_place=run.overwrites(node)
        ),
    )


@lowers("Pow")
def power(run: GraphRun, node: Node) -> None:
    """A constant exponent."""
    run.constant(node, 1)
    run.put(node, apply_unary(run.tape, UNARY["PowConstant"], run.tensor(node, 0)))


@lowers("PRelu")
def prelu(run: GraphRun, node: Node) -> None:
    """The slope is a parameter."""
    tape, operand = run.tape, run.tensor(node, 0)
    slope = run.weight(node, 1, shared=False)
    result = tape.new(operand.shape, operand.element_bytes)
    tape.emit_views("view")
    tape.emit("_prelu_kernel", (operand, slope), (result,))

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        full = tape.new(operand.shape)
        tape.emit("_prelu_kernel_backward", (full, full, slope), (full, full))
        tape.emit("sum", (full,), (slope,))
        tape.emit_views("view")
        return (full, slope)

    tape.record((operand, slope), (result,), (operand, slope), backward)
    run.put(node, result)


@lowers("Sum")
def variadic_sum(run: GraphRun, node: Node) -> None:
    """One addition after the other."""
    total = run.tensor(node, 0)
    for position in range(1, len(node.inputs)):
        total = _binary(run.tape, "Add", total, run.tensor(node, position))
    run.put(node, total)


def operand_tensors(run: GraphRun, node: Node) -> tuple[Tensor | None, Tensor | None]:
    """Both operands of an elementwise node, ``None`` for a scalar.

    A stored tensor that meets a trained one is a parameter (a learnt scale or bias); one that
    meets the images is a constant of their preparation.
    """
    computed = [run.tensors.get(node.input(position)) for position in (0, 1)]
    if all(tensor is None for tensor in computed):
        raise ValueError("no operand depends on the images")
    for position in (0, 1):
        if computed[position] is not None:
            continue
        other = computed[1 - position]
        stored = run.stored_tensor(node, position)
        if stored is not None and stored.is_float and stored.elements > 1:
            if other is not None and other.requires_grad:
                computed[position] = run.weight(node, position, shared=False)
            else:
                computed[position] = run.tape.new(stored.shape)
        elif (value := run.constants.get(node.input(position))) is not None and value.size > 1:
            computed[position] = run.tape.new(value.shape)
    return computed[0], computed[1]


@lowers("Add", "Sub", "Mul", "Div")
def arithmetic(run: GraphRun, node: Node) -> None:
    """The four operations; on two shape values they are computed, not run."""
    left, right = operand_tensors(run, node)
    if left is not None and right is not None:
        run.put(node, _binary(run.tape, node.op_type, left, right))
        return
    operand = left if left is not None else right
    assert operand is not None
    if node.input(0 if left is not None else 1) in run.masks and node.op_type in ("Div", "Mul"):
        run.tape.emit("div_", (operand,), (operand,))
        run.put(node, operand)
        return
    if node.op_type == "Div":
        scalar = "DivScalar" if left is not None else "Reciprocal"
    elif node.op_type == "Mul":
        scalar = "MulScalar"
    else:
        scalar = "SubFromScalar" if node.op_type == "Sub" and left is None else "AddScalar"
    run.put(node, apply_unary(run.tape, UNARY[scalar], operand))


_FORWARD_NAMES = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"}


def _binary(tape: Tape, op_type: str, left: Tensor, right: Tensor) -> Tensor:
    shape = broadcast(left.shape, right.shape)
    result = tape.new(shape, max(left.element_bytes, right.element_bytes))
    in_place = op_type == "Add" and left.shape == shape and left.requires_grad
    tape.emit("add_" if in_place else _FORWARD_NAMES[op_type], (left, right), (result,))
    kept = []
    if op_type == "Mul":
        kept = [right] * left.requires_grad + [left] * right.requires_grad
    elif op_type == "Div":
        kept = [right] + [left] * right.requires_grad

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        arrived = gradients[0]
        assert arrived is not None
        into_left: Tensor | None = None
        into_right: Tensor | None = None
        if left.requires_grad:
            into_left = arrived
            if op_type in ("Mul", "Div"):
                into_left = tape.new(shape)
                tape.emit(_FORWARD_NAMES[op_type], (arrived, right), (into_left,))
            into_left = reduce_gradient(tape, into_left, left.shape)
        if right.requires_grad:
            into_right = arrived
            if op_type != "Add":
                into_right = tape.new(shape)
            if op_type == "Mul":
                tape.emit("mul", (arrived, left), (into_right,))
            elif op_type == "Sub":
                tape.emit("neg", (arrived,), (into_right,))
            elif op_type == "Div":
                tape.emit("div", (left, right), (into_right,))
                tape.emit("div", (into_right, right), (into_right,))
                tape.emit("neg", (arrived,), (into_right,))
                tape.emit("mul", (into_right, into_right), (into_right,))
            into_right = reduce_gradient(tape, into_right, right.shape)
        return (into_left, into_right)

    tape.record((left, right), (result,), kept, backward)
    return result


def reduce_gradient(tape: Tape, gradient: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sum a gradient over the dimensions that its operand was broadcast over."""
    if gradient.shape == shape:
        return gradient
    reduced = tape.new(shape)
    tape.emit("sum", (gradient,), (reduced,))
    if len(gradient.shape) != len(shape):
        tape.emit_views("view")
    return reduced


def add(tape: Tape, left: Tensor, right: Tensor) -> Tensor:
    """The sum of two tensors."""
    return _binary(tape, "Add", left, right)
