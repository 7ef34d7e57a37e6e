"""Operators that rearrange, join or cut tensors; most of them are views."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from benchmarking.onnx_import.errors import OnnxError
from benchmarking.onnx_import.graph import Node
from benchmarking.onnx_import.lowering import GraphRun, lowers
from benchmarking.onnx_import.tape import Tape, Tensor


def reshaped(tape: Tape, tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """Another shape of a tensor; a permuted one has to be copied first."""
    if math.prod(shape) != tensor.elements:
        raise ValueError(f"{tensor.shape} does not become {tuple(shape)}")
    if tensor.contiguous:
        result = tape.view(tensor, shape)
        tape.emit_views("view")
    else:
        result = tape.new(shape, tensor.element_bytes)
        tape.emit("clone", (tensor,), (result,))
        tape.emit_views("view")

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        arrived = gradients[0]
        assert arrived is not None
        into = tape.new(tensor.shape)
        if arrived.contiguous:
            tape.emit_views("view")
        else:
            tape.emit("clone", (arrived,), (into,))
            tape.emit_views("_unsafe_view")
        return (into,)

    tape.record((tensor,), (result,), (), backward)
    return result


@lowers("Flatten")
def flatten(run: GraphRun, node: Node) -> None:
    """Two dimensions of all."""
    tensor = run.tensor(node, 0)
    axis = int(node.attributes.get("axis", 1))
    axis += len(tensor.shape) if axis < 0 else 0
    shape = (math.prod(tensor.shape[:axis]), math.prod(tensor.shape[axis:]))
    run.put(node, reshaped(run.tape, tensor, shape))


@lowers("Reshape")
def reshape(run: GraphRun, node: Node) -> None:
    """The target may hold -1, 0 (as before) and the batch size of the export."""
    name = node.input(0)
    stored = run.stored_weight(node)
    if stored is not None or name not in run.tensors:
        target = run.integers(node, 1) or ()
        if stored is None:
            run.put_constant(node, run.constants[name].reshape(target))
        else:
            run.put_weight(node, np.empty(stored.shape, dtype=np.bool_).reshape(target).shape)
        return
    tensor = run.tensor(node, 0)
    target_shape = list(run.integers(node, 1) or node.attributes.get("shape", ()))
    if not node.attributes.get("allowzero", 0):
        target_shape = [
            tensor.shape[position] if extent == 0 else extent
            for position, extent in enumerate(target_shape)
        ]
    run.put(node, reshaped(run.tape, tensor, _fit(run, tensor, target_shape)))


def _fit(run: GraphRun, tensor: Tensor, target: list[int]) -> list[int]:
    exported = run.exported_batch
    if (
        exported not in (None, run.batch_size)
        and target
        and target[0] == exported
        and tensor.shape[0] == run.batch_size
    ):
        target = [run.batch_size, *target[1:]]
    if target.count(-1) > 1 or any(extent < -1 or extent == 0 for extent in target):
        raise ValueError("target shape")
    if -1 in target:
        known = -math.prod(target)
        if tensor.elements % known:
            raise ValueError("target shape")
        target[target.index(-1)] = tensor.elements // known
    return target


@lowers("Squeeze", "Unsqueeze")
def squeeze(run: GraphRun, node: Node) -> None:
    """Dimensions of one element leave or come."""
    axes = node.attributes.get("axes") or run.integers(node, 1)
    name = node.input(0)
    stored = run.stored_weight(node)
    if stored is not None:
        shape = stored.shape
    else:
        shape = run.tensors[name].shape if name in run.tensors else run.constants[name].shape
    if node.op_type == "Squeeze":
        removed = (
            {axis % len(shape) for axis in axes}
            if axes
            else {position for position, extent in enumerate(shape) if extent == 1}
        )
        if any(shape[axis] != 1 for axis in removed):
            raise ValueError("Squeeze of more than one element")
        target = [extent for position, extent in enumerate(shape) if position not in removed]
    else:
        rank = len(shape) + len(axes or ())
        added = {axis % rank for axis in axes or ()}
        rest = iter(shape)
        target = [1 if position in added else next(rest) for position in range(rank)]
    if stored is not None:
        run.put_weight(node, target)
    elif name in run.tensors:
        _view(run, node, "squeeze" if node.op_type == "Squeeze" else "unsqueeze", target)
    else:
        run.put_constant(node, run.constants[name].reshape(target))


def _view(run: GraphRun, node: Node, name: str, target: Sequence[int]) -> None:
    tape, tensor = run.tape, run.tensor(node, 0)
    result = tape.view(tensor, target, contiguous=tensor.contiguous)
    tape.emit_views(name)

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        arrived = gradients[0]
        assert arrived is not None
        tape.emit_views("unsqueeze" if name == "squeeze" else "squeeze")
        return (tape.view(arrived, tensor.shape, contiguous=arrived.contiguous),)

    tape.record((tensor,), (result,), (), backward)
    run.put(node, result)


@lowers("Transpose")
def transpose(run: GraphRun, node: Node) -> None:
    """Another order of the dimensions, in place."""
    stored = run.stored_weight(node)
    shape = stored.shape if stored is not None else run.tensor(node, 0).shape
    order = node.attributes.get("perm", tuple(reversed(range(len(shape)))))
    if sorted(order) != list(range(len(shape))):
        raise ValueError("perm")
    if stored is not None:
        run.put_weight(node, [shape[axis] for axis in order])
        return
    tape, tensor = run.tape, run.tensor(node, 0)
    contiguous = tensor.contiguous and tuple(order) == tuple(sorted(order))
    result = tape.view(tensor, [tensor.shape[axis] for axis in order], contiguous=contiguous)
    tape.emit_views("permute")

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        arrived = gradients[0]
        assert arrived is not None
        tape.emit_views("permute")
        return (tape.view(arrived, tensor.shape, contiguous=contiguous),)

    tape.record((tensor,), (result,), (), backward)
    run.put(node, result)


@lowers("Concat")
def concat(run: GraphRun, node: Node) -> None:
    """Tensors one after the other along a dimension."""
    tape = run.tape
    tensors = [run.tensor(node, position) for position in range(len(node.inputs))]
    rank = len(tensors[0].shape)
    axis = int(node.attributes["axis"]) % rank
    others = {(*t.shape[:axis], *t.shape[axis + 1 :]) for t in tensors}
    if len(others) != 1:
        raise ValueError("shapes of Concat")
    if len(tensors) == 1:
        run.alias(node.outputs[0], node.inputs[0])
        return
    shape = list(tensors[0].shape)
    shape[axis] = sum(tensor.shape[axis] for tensor in tensors)
    result = tape.new(shape, max(tensor.element_bytes for tensor in tensors))
    tape.emit("cat", tensors, (result,))

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        tape.emit_views("slice", sum(tensor.requires_grad for tensor in tensors))
        return [tape.new(t.shape) if t.requires_grad else None for t in tensors]

    tape.record(tensors, (result,), (), backward)
    run.put(node, result)


@lowers("Split", "SplitToSequence")
def split(run: GraphRun, node: Node) -> None:
    """Parts of a tensor along a dimension, as views."""
    tape, tensor = run.tape, run.tensor(node, 0)
    is_sequence = node.op_type == "SplitToSequence"
    axis = int(node.attributes.get("axis", 0)) % len(tensor.shape)
    sizes = node.attributes.get("split") or run.integers(node, 1)
    if is_sequence and (not sizes or run.constants[node.input(1)].ndim == 0):
        size = sizes[0] if sizes else 1
        whole, rest = divmod(tensor.shape[axis], size)
        sizes = [size] * whole + [rest] * bool(rest)
    elif not sizes:
        parts = int(node.attributes.get("num_outputs", len(node.outputs)))
        size = math.ceil(tensor.shape[axis] / parts)
        sizes = [size] * (parts - 1) + [tensor.shape[axis] - size * (parts - 1)]
    if sum(sizes) != tensor.shape[axis] or len(sizes) < len(node.outputs):
        raise ValueError("sizes of Split")
    results = []
    for size in sizes:
        shape = list(tensor.shape)
        shape[axis] = int(size)
        results.append(tape.view(tensor, shape, contiguous=False))
    tape.emit_views("split")

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        into = tape.new(tensor.shape)
        _join_gradients(tape, gradients, results, into)
        return (into,)

    tape.record((tensor,), results, (), backward)
    if is_sequence:
        run.sequences[node.outputs[0]] = results
        return
    for position, result in enumerate(results):
        run.put(node, result, position)


@lowers("SequenceAt")
def sequence_part(run: GraphRun, node: Node) -> None:
    """One part of a split."""
    position = (run.integers(node, 1) or (0,))[0]
    run.put(node, run.sequences[node.input(0)][position])


@lowers("Gather")
def select(run: GraphRun, node: Node) -> None:
    """One place along a dimension, as a view."""
    tape, tensor = run.tape, run.tensor(node, 0)
    chosen = run.constant(node, 1)
    axis = int(node.attributes.get("axis", 0)) % len(tensor.shape)
    if chosen is None or chosen.size != 1:
        raise OnnxError(
            "Gather is covered for one place of the images at a time only.",
            code="unsupported_operator",
        )
    rest = [extent for position, extent in enumerate(tensor.shape) if position != axis]
    shape = rest if chosen.ndim == 0 else [*rest[:axis], 1, *rest[axis:]]
    result = tape.view(tensor, shape, contiguous=False)
    tape.emit_views("select")

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        into = tape.new(tensor.shape)
        tape.emit("select_backward", (gradients[0],), (into,))
        return (into,)

    tape.record((tensor,), (result,), (), backward)
    run.put(node, result)


@lowers("Slice")
def cut(run: GraphRun, node: Node) -> None:
    """A part of a tensor, as a view; on a shape value it is computed."""
    attributes = node.attributes
    starts = attributes.get("starts") or run.integers(node, 1) or ()
    ends = attributes.get("ends") or run.integers(node, 2) or ()
    axes = attributes.get("axes") or run.integers(node, 3) or tuple(range(len(starts)))
    steps = run.integers(node, 4) or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ValueError("Slice")
    name = node.input(0)
    if name not in run.tensors:
        value = run.constants[name]
        for start, end, axis, step in zip(starts, ends, axes, steps):
            window = [slice(None)] * value.ndim
            window[axis] = slice(start, end if abs(end) < 2**31 else None, step)
            value = value[tuple(window)]
        run.put_constant(node, value)
        return
    tensor = run.tensor(node, 0)
    shape = list(tensor.shape)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        shape[axis] = len(range(*slice(start, end, step).indices(shape[axis])))
    result = run.tape.view(tensor, shape, contiguous=False)
    run.tape.emit_views("slice", len(starts))
    place = None
    if len(starts) == 1 and steps[0] == 1:
        extent = tensor.shape[axes[0]]
        place = (axes[0] % len(shape), *slice(starts[0], ends[0]).indices(extent)[:2])
    cuts = run.cuts.get(name)
    if cuts is None:
        cuts = run.cuts[name] = Cuts(run.tape, tensor)
    cuts.add(result, place)
    run.put(node, result)


class Cuts:
    """All slices of one tensor.

    Exporters write a split or a chunk as one slice for each part; where slices cover a tensor
    without overlap, their gradients are joined once, as those of a split are.
    """

    def __init__(self, tape: Tape, tensor: Tensor) -> None:
        self._tape, self._tensor = tape, tensor
        self._results: list[Tensor] = []
        self._places: list[tuple[int, int, int] | None] = []
        tape.record((tensor,), self._results, (), self._backward)

    def add(self, result: Tensor, place: tuple[int, int, int] | None) -> None:
        """Add a slice at an axis, from, to; ``None`` for one of several axes or with steps."""
        result.requires_grad = self._tensor.requires_grad
        self._results.append(result)
        self._places.append(place)

    def _is_split(self) -> bool:
        places = [place for place in self._places if place is not None]
        if len(places) < len(self._places) or len({axis for axis, _, _ in places}) > 1:
            return False
        edges = sorted((start, end) for _, start, end in places)
        meet = all(before[1] == after[0] for before, after in pairwise(edges))
        return meet and edges[0][0] == 0 and edges[-1][1] == self._tensor.shape[places[0][0]]

    def _backward(self, gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        tape = self._tape
        into = tape.new(self._tensor.shape)
        if len(self._results) > 1 and self._is_split():
            _join_gradients(tape, gradients, self._results, into)
            return (into,)
        arrived = [gradient for gradient in gradients if gradient is not None]
        for number, gradient in enumerate(arrived):
            tape.emit("slice_backward", (gradient,), (into,))
            if number:
                tape.emit("add", (into, into), (into,))
        return (into,)


def _join_gradients(
    tape: Tape, gradients: Sequence[Tensor | None], parts: Sequence[Tensor], into: Tensor
) -> None:
    """Concatenate the gradients of all parts, zeros where a part has none."""
    joined = []
    for gradient, part in zip(gradients, parts):
        if gradient is None:
            gradient = tape.new(part.shape)
            tape.emit("zeros", (), (gradient,))
        joined.append(gradient)
    tape.emit("cat", joined, (into,))
