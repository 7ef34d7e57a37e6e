"""Pooling over windows and over whole images."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarking.onnx_import.errors import OnnxError
from benchmarking.onnx_import.graph import Node
from benchmarking.onnx_import.lowering import GraphRun, attributes_pair, lowers
from benchmarking.onnx_import.tape import LONG, Tensor
from benchmarking.onnx_import.windows import window_pads


@lowers("MaxPool", "AveragePool")
def pool(run: GraphRun, node: Node) -> None:
    """Pooling over windows."""
    tape, examples = run.tape, run.tensor(node, 0)
    if "kernel_shape" not in node.attributes:
        raise ValueError("kernel_shape is missing")
    kernel = attributes_pair(node.attributes, "kernel_shape", (1, 1))
    strides = attributes_pair(node.attributes, "strides", (1, 1))
    dilations = attributes_pair(node.attributes, "dilations", (1, 1))
    pads = window_pads(node, examples.shape[2:], kernel, strides, dilations)
    up = bool(node.attributes.get("ceil_mode", 0))
    extents = []
    for axis in (0, 1):
        size = examples.shape[2 + axis] + pads[axis] + pads[2 + axis]
        reach = dilations[axis] * (kernel[axis] - 1) + 1
        steps = (size - reach) / strides[axis]
        extent = (math.ceil(steps) if up else math.floor(steps)) + 1
        if up and (extent - 1) * strides[axis] >= examples.shape[2 + axis] + pads[axis]:
            extent -= 1  # a window must begin inside the image
        extents.append(extent)
    if min(extents) < 1:
        raise OnnxError(
            f"The images become {examples.shape[2]} x {examples.shape[3]} pixels, too small for "
            f"{kernel[0]} x {kernel[1]} pooling of this network.",
            code="image_too_small",
        )
    result = tape.new((*examples.shape[:2], *extents), examples.element_bytes)
    is_max = node.op_type == "MaxPool"
    indices = tape.new(result.shape, LONG) if is_max else None
    name = "max_pool2d_with_indices" if is_max else "avg_pool2d"
    tape.emit(name, (examples,), (result, indices))

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        into = tape.new(examples.shape)
        tape.emit(f"{name}_backward", (gradients[0], examples, indices), (into,))
        return (into,)

    kept = (examples,) if indices is None else (examples, indices)
    tape.record((examples,), (result,), kept, backward)
    run.put(node, result)


@lowers("GlobalMaxPool")
def global_max_pool(run: GraphRun, node: Node) -> None:
    """The largest value of each channel."""
    tape, examples = run.tape, run.tensor(node, 0)
    result = tape.new((*examples.shape[:2], 1, 1), examples.element_bytes)
    indices = tape.new(result.shape, LONG)
    tape.emit("adaptive_max_pool2d", (examples,), (result, indices))

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        into = tape.new(examples.shape)
        tape.emit("adaptive_max_pool2d_backward", (gradients[0], examples, indices), (into,))
        return (into,)

    tape.record((examples,), (result,), (examples, indices), backward)
    run.put(node, result)
