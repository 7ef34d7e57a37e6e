"""Convolution and linear layers: the operators with matrices of weights."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarking.onnx_import.errors import OnnxError
from benchmarking.onnx_import.graph import Node
from benchmarking.onnx_import.lowering import GraphRun, attributes_pair, lowers
from benchmarking.onnx_import.resizing import pad_spatially
from benchmarking.onnx_import.tape import Tape, Tensor
from benchmarking.onnx_import.windows import window_pads
from benchmarking.specs import ConvolutionSpec


@lowers("Conv")
def convolution(run: GraphRun, node: Node) -> None:
    """A two-dimensional convolution; unequal padding becomes an operation of its own."""
    tape = run.tape
    examples = run.tensor(node, 0)
    weight = run.weight(node, 1, shared=True)
    if len(weight.shape) != 4 or len(examples.shape) != 4:
        raise OnnxError(
            f"The graph has a {len(weight.shape) - 2}-dimensional convolution; only "
            "two-dimensional convolutions are covered.",
            code="not_two_dimensional",
        )
    # A bias that the graph computes is an exporter's row of zeros, no parameter.
    bias = run.weight(node, 2, shared=False) if run.stored_tensor(node, 2) is not None else None
    strides = attributes_pair(node.attributes, "strides", (1, 1))
    dilations = attributes_pair(node.attributes, "dilations", (1, 1))
    kernel = (weight.shape[2], weight.shape[3])
    top, left, bottom, right = window_pads(node, examples.shape[2:], kernel, strides, dilations)
    if (top, left) != (bottom, right):
        examples = pad_spatially(tape, examples, (top, left, bottom, right))
        top = left = 0
    groups = int(node.attributes.get("group", 1))
    layer = _layer(examples, weight, strides, (top, left), dilations, groups, bias is not None)
    examples, weight = tape.as_half(examples), tape.as_half(weight)
    result = tape.new(
        (examples.shape[0], layer.out_channels, layer.out_height, layer.out_width),
        examples.element_bytes,
    )
    work = layer.multiply_adds * examples.shape[0]
    tape.emit("convolution", (examples, weight, bias), (result,), multiply_adds=work)
    tape.forward_convolutions[layer] += 1

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        arrived = gradients[0]
        assert arrived is not None
        into_examples = tape.new(examples.shape) if examples.requires_grad else None
        tape.emit(
            "convolution_backward",
            (arrived, examples, weight),
            (into_examples, weight, bias),
            multiply_adds=work * (1 + examples.requires_grad),
        )
        tape.backward_convolutions[layer, examples.requires_grad] += 1
        return (into_examples, weight, bias)

    inputs = (examples, weight) if bias is None else (examples, weight, bias)
    tape.record(inputs, (result,), (examples, weight), backward)
    run.put(node, result)


def _layer(
    examples: Tensor,
    weight: Tensor,
    strides: tuple[int, int],
    padding: tuple[int, int],
    dilations: tuple[int, int],
    groups: int,
    bias: bool,
) -> ConvolutionSpec:
    layer = ConvolutionSpec(
        in_channels=examples.shape[1],
        in_height=examples.shape[2],
        in_width=examples.shape[3],
        out_channels=weight.shape[0],
        kernel_height=weight.shape[2],
        kernel_width=weight.shape[3],
        stride_height=strides[0],
        stride_width=strides[1],
        padding_height=padding[0],
        padding_width=padding[1],
        dilation_height=dilations[0],
        dilation_width=dilations[1],
        groups=groups,
        bias=bias,
    )
    if (
        groups < 1
        or min(strides) < 1
        or min(dilations) < 1
        or min(padding) < 0
        or min(weight.shape) < 1
        or weight.shape[1] * groups != layer.in_channels
        or layer.out_channels % groups
    ):
        raise OnnxError(
            f"A convolution's weights of shape {weight.shape} in {groups} groups do not fit "
            f"{layer.in_channels} input channels.",
            code="bad_convolution",
        )
    if layer.out_height < 1 or layer.out_width < 1:
        raise OnnxError(
            f"The images become {layer.in_height} x {layer.in_width} pixels, too small for a "
            f"{layer.kernel_height} x {layer.kernel_width} convolution of this network.",
            code="image_too_small",
        )
    return layer


@lowers("Gemm")
def gemm(run: GraphRun, node: Node) -> None:
    """A linear layer on one vector per example."""
    weight = run.weight(node, 1, shared=True)
    bias = run.weight(node, 2, shared=False) if node.input(2) else None
    if node.attributes.get("transA", 0):
        raise OnnxError("Gemm with a transposed first factor is not covered.", code="bad_node")
    features, outputs = weight.shape
    if node.attributes.get("transB", 0):
        features, outputs = outputs, features
    run.put(node, _linear(run.tape, run.tensor(node, 0), weight, bias, features, outputs))


@lowers("Linear", "MatMul")
def matrix_product(run: GraphRun, node: Node) -> None:
    """A linear layer on the last dimension, or the product of two computed tensors."""
    if run.stored_tensor(node, 1) is None:
        _batched_product(run, node)
        return
    weight = run.weight(node, 1, shared=True)
    bias = run.weight(node, 2, shared=False) if node.input(2) else None
    features, outputs = weight.shape
    run.put(node, _linear(run.tape, run.tensor(node, 0), weight, bias, features, outputs))


def _linear(
    tape: Tape, examples: Tensor, weight: Tensor, bias: Tensor | None, features: int, outputs: int
) -> Tensor:
    if examples.shape[-1] != features:
        raise OnnxError(
            f"A linear layer for {features} features gets {examples.shape[-1]}; "
            "the image size may be wrong for this network.",
            code="bad_linear",
        )
    flattens = len(examples.shape) > 2
    rows = examples.elements // features
    examples, weight = tape.as_half(examples), tape.as_half(weight)
    matrix = tape.new((rows, outputs), examples.element_bytes)
    work = rows * features * outputs
    tape.emit_views("view", 2 * flattens)
    tape.emit_views("t")
    tape.emit(
        "mm" if bias is None else "addmm", (examples, weight, bias), (matrix,), multiply_adds=work
    )
    result = tape.view(matrix, (*examples.shape[:-1], outputs))

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        into_examples = tape.new(examples.shape) if examples.requires_grad else None
        if into_examples is not None:
            tape.emit_views("t")
            tape.emit("mm", (matrix, weight), (into_examples,), multiply_adds=work)
        tape.emit_views("t", 3)
        tape.emit("mm", (matrix, examples), (weight,), multiply_adds=work)
        if bias is not None:
            tape.emit("sum", (matrix,), (bias,))
        tape.emit_views("view", 2 * flattens + (bias is not None))
        return (into_examples, weight, bias)

    inputs = (examples, weight) if bias is None else (examples, weight, bias)
    tape.record(inputs, (result,), (examples, weight), backward)
    return result


def _batched_product(run: GraphRun, node: Node) -> None:
    tape = run.tape
    left, right = tape.as_half(run.tensor(node, 0)), tape.as_half(run.tensor(node, 1))
    if len(left.shape) < 2 or len(right.shape) < 2 or left.shape[-1] != right.shape[-2]:
        raise ValueError("shapes of a matrix product")
    result = tape.new((*left.shape[:-1], right.shape[-1]), left.element_bytes)
    work = result.elements * left.shape[-1]
    tape.emit_views("expand", 2)
    tape.emit_views("view", 2)
    tape.emit("bmm", (left, right), (result,), multiply_adds=work)
    tape.emit_views("_unsafe_view")

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        tape.emit_views("view", 3)
        tape.emit_views("transpose", 2)
        into_left, into_right = tape.new(left.shape), tape.new(right.shape)
        if right.requires_grad:
            tape.emit("bmm", (left, result), (into_right,), multiply_adds=work)
        if left.requires_grad:
            tape.emit("bmm", (result, right), (into_left,), multiply_adds=work)
        return (into_left, into_right)

    kept = [right] * left.requires_grad + [left] * right.requires_grad
    tape.record((left, right), (result,), kept, backward)
    run.put(node, result)
