"""Normalization of channels, of examples and of neighbourhoods."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarking.onnx_import.graph import Node
from benchmarking.onnx_import.lowering import GraphRun, lowers
from benchmarking.onnx_import.tape import LONG, Tape, Tensor


@lowers("BatchNormalization")
def batch_norm(run: GraphRun, node: Node) -> None:
    """In training mode, whatever mode the graph was exported in."""
    tape, examples = run.tape, run.tensor(node, 0)
    channels = examples.shape[1]
    stored = run.stored_tensor(node, 1)
    if stored is not None and stored.shape != (channels,):
        raise ValueError("BatchNormalization's parameters")
    tape.emit("add_", extra_bytes=2 * LONG)  # the count of batches
    tape.emit_views("empty")
    run.put(node, _normalize(tape, examples, channels, tracks=True, affine=True))


@lowers("InstanceNormalization")
def instance_norm(run: GraphRun, node: Node) -> None:
    """PyTorch runs it as a batch norm over all channels of all examples."""
    tape, examples = run.tape, run.tensor(node, 0)
    tape.emit_views("view", 2)
    groups = examples.shape[0] * examples.shape[1]
    run.put(node, _normalize(tape, examples, groups, tracks=False, affine=False))


def _normalize(
    tape: Tape, examples: Tensor, channels: int, *, tracks: bool, affine: bool
) -> Tensor:
    parameters = [tape.parameter((channels,)) for _ in range(2)] if affine else []
    running = [tape.new((channels,)) for _ in range(2)] if tracks else []
    statistics = [tape.new((channels,)) for _ in range(2)]
    result = tape.new(examples.shape, examples.element_bytes)
    tape.emit("native_batch_norm", (examples, *parameters, *running), (result, *statistics))
    if tracks and examples.elements == examples.shape[0] * examples.shape[1]:
        tape.normalizes_one_value = True

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        into = tape.new(examples.shape)
        tape.emit(
            "native_batch_norm_backward",
            (gradients[0], examples, *parameters[:1], *running, *statistics),
            (into, *parameters),
        )
        return (into, *parameters)

    kept = (examples, *parameters[:1], *running, *statistics)
    tape.record((examples, *parameters), (result,), kept, backward)
    return result


@lowers("LayerNormalization", "GroupNormalization")
def layer_norm(run: GraphRun, node: Node) -> None:
    """Normalization of each example by itself, with a scale and a bias."""
    tape, examples = run.tape, tape_float(run, node)
    grouped = node.op_type == "GroupNormalization"
    name = "native_group_norm" if grouped else "native_layer_norm"
    scale = run.weight(node, 1, shared=False)
    bias = run.weight(node, 2, shared=False) if node.input(2) else None
    if grouped:
        rows = examples.shape[0] * int(node.attributes["num_groups"])
    else:
        axis = int(node.attributes.get("axis", -1)) % len(examples.shape)
        rows = math.prod(examples.shape[:axis])
    result = tape.new(examples.shape, examples.element_bytes)
    statistics = [tape.new((rows,)) for _ in range(2)]
    tape.emit(name, (examples, scale, bias), (result, *statistics))

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        into = tape.new(examples.shape)
        reads_bias = None if grouped else bias
        tape.emit(
            f"{name}_backward",
            (gradients[0], examples, scale, reads_bias, *statistics),
            (into, scale, bias),
        )
        return (into, scale, bias)

    parameters = (scale,) if bias is None else (scale, bias)
    # A layer norm keeps its bias too, for its shape; it is a parameter and counts nothing.
    kept_parameters = (scale,) if grouped else parameters
    tape.record(
        (examples, *parameters), (result,), (examples, *kept_parameters, *statistics), backward
    )
    run.put(node, result)


def tape_float(run: GraphRun, node: Node) -> Tensor:
    """The first input as autocast hands it to a normalization."""
    return run.tape.as_float(run.tensor(node, 0))


@lowers("LRN")
def local_response_norm(run: GraphRun, node: Node) -> None:
    """PyTorch composes it of elementwise operations and a three-dimensional pooling."""
    tape, examples = run.tape, run.tensor(node, 0)
    full = tape.new(examples.shape)
    channels = examples.shape[1]
    window = int(node.attributes["size"])
    padded = tape.new((examples.shape[0], channels + window - 1, *examples.shape[2:]))
    result = tape.new(examples.shape)
    for name, reads, writes in (
        ("mul", (examples, full), full),
        ("constant_pad_nd", (full,), padded),
        ("avg_pool3d", (padded,), full),
        ("mul", (full,), full),
        ("add", (full,), full),
        ("pow", (full,), full),
        ("div", (examples, full), result),
    ):
        tape.emit(name, reads, (writes,))
    tape.emit_views("view", 2)
    tape.emit_views("squeeze")

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        for name, reads in (
            ("div", 2),
            ("div", 2),
            ("neg", 1),
            ("mul", 2),
            ("div", 2),
            ("pow", 1),
            ("mul", 1),
            ("mul", 2),
            ("mul", 1),
        ):
            tape.emit(name, (full,) * reads, (full,))
        tape.emit("avg_pool3d_backward", (full, padded), (padded,))
        tape.emit("constant_pad_nd", (padded,), (full,))
        for name in ("mul", "mul", "add", "add"):
            tape.emit(name, (full, full), (full,))
        tape.emit_views("view", 2)
        tape.emit_views("unsqueeze")
        return (full,)

    sums, powers = tape.new(examples.shape), tape.new(examples.shape)
    tape.record((examples,), (result,), (examples, padded, sums, powers), backward)
    run.put(node, result)
