"""Dropout and the random masks that exporters write it as."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarking.onnx_import.graph import Node
from benchmarking.onnx_import.lowering import GraphRun, lowers
from benchmarking.onnx_import.tape import FLOAT, HALF, Tensor


@lowers("Dropout")
def dropout(run: GraphRun, node: Node) -> None:
    """As in training, whatever mode the graph was exported in."""
    tape, examples = run.tape, run.tensor(node, 0)
    mask = tape.new(examples.shape, 1 if tape.half else FLOAT)
    result = tape.new(examples.shape, examples.element_bytes)
    tape.emit_views("empty_like")
    tape.emit("bernoulli_", (), (mask,))
    tape.emit("div_", (mask,), (mask,))
    tape.emit("mul", (examples, mask), (result,))

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        into = tape.new(examples.shape)
        tape.emit("mul", (gradients[0], mask), (into,))
        return (into,)

    tape.record((examples,), (result,), (mask,), backward)
    run.put(node, result)


@lowers("RandomUniformLike", "RandomUniform", "RandomNormalLike", "Bernoulli")
def random_mask(run: GraphRun, node: Node) -> None:
    """Random numbers for a dropout or a stochastic depth that the exporter wrote out."""
    tape = run.tape
    if node.input(0) in run.tensors:
        shape = run.tensors[node.input(0)].shape
    elif node.input(0) in run.constants:
        shape = tuple(int(extent) for extent in run.constants[node.input(0)].shape)
    else:
        shape = tuple(int(extent) for extent in node.attributes["shape"])
    mask = tape.new(shape, HALF if tape.half else FLOAT)
    tape.emit_views("empty")
    tape.emit("bernoulli_", (), (mask,))
    run.masks.add(node.outputs[0])
    run.put(node, mask)
