"""Operators that pad, resize or average images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from benchmarking.onnx_import.graph import Node
from benchmarking.onnx_import.lowering import GraphRun, broadcast, lowers
from benchmarking.onnx_import.tape import Tape, Tensor


@lowers("Pad")
def pad(run: GraphRun, node: Node) -> None:
    """A border around the images."""
    tensor = run.tensor(node, 0)
    pads = node.attributes.get("pads") or run.integers(node, 1) or ()
    axes = run.integers(node, 3) if node.input(3) else None
    rank = len(tensor.shape)
    positions = [axis % rank for axis in axes] if axes else list(range(rank))
    if len(pads) != 2 * len(positions):
        raise ValueError("pads")
    shape = list(tensor.shape)
    for number, axis in enumerate(positions):
        shape[axis] += pads[number] + pads[number + len(positions)]
    if shape == list(tensor.shape):
        run.alias(node.outputs[0], node.inputs[0])
        return
    name = "constant_pad_nd"
    if node.attributes.get("mode", "constant") != "constant":
        name = "reflection_pad2d"
    run.put(node, _resized(run.tape, tensor, shape, name, name))


def pad_spatially(tape: Tape, images: Tensor, pads: tuple[int, int, int, int]) -> Tensor:
    """Images with a border of top, left, bottom, right pixels."""
    top, left, bottom, right = pads
    shape = (*images.shape[:2], images.shape[2] + top + bottom, images.shape[3] + left + right)
    return _resized(tape, images, shape, "constant_pad_nd", "constant_pad_nd")


def _resized(
    tape: Tape, tensor: Tensor, shape: Sequence[int], forward: str, backward_name: str
) -> Tensor:
    """A copy of another size, whose gradient is a copy of the former size."""
    result = tape.new(shape, tensor.element_bytes)
    tape.emit(forward, (tensor,), (result,))

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        into = tape.new(tensor.shape)
        tape.emit(backward_name, (gradients[0],), (into,))
        return (into,)

    tape.record((tensor,), (result,), (), backward)
    return result


@lowers("Resize", "Upsample")
def resize(run: GraphRun, node: Node) -> None:
    """Interpolation to another size."""
    tensor = run.tensor(node, 0)
    is_upsample = node.op_type == "Upsample"
    sizes = None if is_upsample else run.integers(node, 3)
    if sizes:
        shape = list(sizes)
        if len(shape) != len(tensor.shape):
            raise ValueError("sizes")
        shape[0] = tensor.shape[0]
    else:
        scales = node.attributes.get("scales")
        if scales is None:
            value = run.constant(node, 1 if is_upsample else 2)
            scales = () if value is None else value.ravel().tolist()
        if len(scales) != len(tensor.shape):
            raise ValueError("scales")
        shape = [math.floor(extent * scale) for extent, scale in zip(tensor.shape, scales)]
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(
        node.attributes.get("mode", "nearest"), "nearest"
    )
    name = f"upsample_{mode}2d"
    run.put(node, _resized(run.tape, tensor, shape, name, f"{name}_backward"))


@lowers("DepthToSpace", "SpaceToDepth")
def depth_to_space(run: GraphRun, node: Node) -> None:
    """Channels become pixels, or pixels channels, by a copy."""
    tensor = run.tensor(node, 0)
    block = int(node.attributes["blocksize"])
    batch, channels, height, width = tensor.shape
    if node.op_type == "DepthToSpace":
        shape = (batch, channels // block**2, height * block, width * block)
        name, backward_name = "pixel_shuffle", "pixel_unshuffle"
    else:
        shape = (batch, channels * block**2, height // block, width // block)
        name, backward_name = "pixel_unshuffle", "pixel_shuffle"
    if math.prod(shape) != tensor.elements:
        raise ValueError("blocksize")
    run.put(node, _resized(run.tape, tensor, shape, name, backward_name))


@lowers("GlobalAveragePool")
def global_average_pool(run: GraphRun, node: Node) -> None:
    """The mean of each channel."""
    tensor = run.tensor(node, 0)
    axes = tuple(range(2, len(tensor.shape)))
    run.put(node, _reduced(run.tape, "mean", tensor, axes, keep=True))


@lowers("ReduceMean", "ReduceSum")
def reduce(run: GraphRun, node: Node) -> None:
    """Mean or sum over dimensions."""
    tensor = run.tensor(node, 0)
    axes = node.attributes.get("axes") or run.integers(node, 1)
    rank = len(tensor.shape)
    positions = tuple(axis % rank for axis in axes) if axes else tuple(range(rank))
    keep = bool(node.attributes.get("keepdims", 1))
    name = "mean" if node.op_type == "ReduceMean" else "sum"
    run.put(node, _reduced(run.tape, name, tensor, positions, keep=keep))


def _reduced(tape: Tape, name: str, tensor: Tensor, axes: Sequence[int], *, keep: bool) -> Tensor:
    kept = [1 if axis in axes else extent for axis, extent in enumerate(tensor.shape)]
    shape = kept if keep else [e for axis, e in enumerate(tensor.shape) if axis not in axes]
    result = tape.new(shape, tensor.element_bytes)
    tape.emit(name, (tensor,), (result,))

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        if not keep:
            tape.emit_views("unsqueeze", len(axes))
        tape.emit_views("expand")
        spread = tape.new(tensor.shape)
        spread.expanded_from = math.prod(shape)
        if name == "sum":
            return (spread,)
        into = tape.new(tensor.shape)
        tape.emit("div", (spread,), (into,))
        return (into,)

    tape.record((tensor,), (result,), (), backward)
    return result


@lowers("Expand")
def expand(run: GraphRun, node: Node) -> None:
    """A tensor seen as a larger one; of a constant only the shape matters."""
    target = run.integers(node, 1) or ()
    name = node.input(0)
    if name in run.masks:
        run.alias(node.outputs[0], name)
        return
    if name not in run.tensors:
        value = run.constants[name]
        shape = broadcast(value.shape, target)
        if math.prod(shape) <= 64:
            run.put_constant(node, np.broadcast_to(value, shape))
        else:
            run.put_shape(node, shape)
        return
    tape, tensor = run.tape, run.tensor(node, 0)
    shape = broadcast(tensor.shape, target)
    if shape == tensor.shape:
        run.alias(node.outputs[0], name)
        return
    result = tape.view(tensor, shape, contiguous=False)
    result.expanded_from = tensor.elements
    tape.emit_views("expand")

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        into = tape.new(tensor.shape)
        tape.emit("sum", (gradients[0],), (into,))
        return (into,)

    tape.record((tensor,), (result,), (), backward)
    run.put(node, result)
