"""Several ONNX nodes that were one operation of the network, and BatchNorm that was folded away.

Exporters write SiLU as ``x * sigmoid(x)``, GELU as five nodes and a linear layer on more than two
dimensions as a product and a sum. They also fold BatchNorm into the convolution before it when
a network is exported for inference; training has it, so it is put back.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from benchmarking.onnx_import.graph import Graph, Node, StoredTensor

_NORMALIZATIONS = frozenset(
    {
        "BatchNormalization",
        "InstanceNormalization",
        "LayerNormalization",
        "GroupNormalization",
        "LRN",
    }
)
_RULES = "pkg.onnxscript.rewriter.rule_name"
_FX_NODE = "pkg.torch.onnx.fx_node"
_FOLDED_WEIGHT = re.compile(r"onnx::Conv_\d+")
"""How PyTorch's first exporter names a weight that it computed; others keep their module's."""
_CONVOLUTION_CALL = re.compile(r"conv2d\.default\]\(args = \(%\w+, %\w+, %\w+")
_LINEAR_CALL = re.compile(r"linear\.default\]\(args = \(%\w+, %\w+, %\w+")


def join_patterns(graph: Graph) -> Graph:
    """The graph with SiLU, Mish, hard swish, GELU and biased linear layers as one node each."""
    index = _Index(graph)
    joined: dict[str, Node] = {}
    dropped: set[str] = set()
    for node in graph.nodes:
        found = _silu_like(index, node) or _gelu(index, node) or _linear(index, node)
        if found is None or any(name in dropped for name in found[1]):
            continue
        joined[node.outputs[0]], inner = found
        dropped.update(inner)
    nodes = [
        joined.get(node.outputs[0], node)
        for node in graph.nodes
        if node.outputs and node.outputs[0] not in dropped
    ]
    return replace(graph, nodes=tuple(nodes))


class _Index:
    """Who writes a tensor and how many read it."""

    def __init__(self, graph: Graph) -> None:
        self._producers = {name: node for node in graph.nodes for name in node.outputs}
        self._readers = Counter(name for node in graph.nodes for name in node.inputs)
        self._readers.update(graph.outputs)
        self._initializers = graph.initializers

    def stored_rank(self, name: str) -> int:
        """Number of dimensions of a stored tensor, seen through a transposition; else -1."""
        while name not in self._initializers and name in self._producers:
            producer = self._producers[name]
            if producer.op_type not in ("Transpose", "Identity"):
                return -1
            name = producer.input(0)
        stored = self._initializers.get(name)
        return -1 if stored is None else len(stored.shape)

    def inner(self, name: str, *op_types: str) -> Node | None:
        """The node that writes a tensor, if it is of a kind and nobody else reads the tensor."""
        node = self._producers.get(name)
        if node is None or node.op_type not in op_types or self._readers[name] != 1:
            return None
        return node


_Found = tuple[Node, tuple[str, ...]]


def _silu_like(index: _Index, node: Node) -> _Found | None:
    """``x * gate(x)``."""
    if node.op_type != "Mul" or len(node.inputs) != 2:
        return None
    for operand, gate_name in (node.inputs, node.inputs[::-1]):
        gate = index.inner(gate_name, "Sigmoid", "HardSigmoid", "Tanh")
        if gate is None:
            continue
        if gate.input(0) == operand and gate.op_type != "Tanh":
            kind = "Silu" if gate.op_type == "Sigmoid" else "HardSwish"
            return Node(kind, (operand,), node.outputs), (gate_name,)
        if gate.op_type == "Tanh":
            softplus = index.inner(gate.input(0), "Softplus")
            if softplus is not None and softplus.input(0) == operand:
                return Node("Mish", (operand,), node.outputs), (gate_name, gate.input(0))
    return None


def _gelu(index: _Index, node: Node) -> _Found | None:
    """``x * (erf(x / sqrt(2)) + 1) * 0.5`` in either order of the products."""
    if node.op_type != "Mul" or len(node.inputs) != 2:
        return None
    for first, second in (node.inputs, node.inputs[::-1]):
        product = index.inner(first, "Mul")
        if product is not None:
            for operand, shifted in (product.inputs, product.inputs[::-1]):
                inner = _shifted_erf(index, operand, shifted)
                if inner:
                    return Node("Gelu", (operand,), node.outputs), (first, *inner)
            for half, shifted in (product.inputs, product.inputs[::-1]):
                inner = _shifted_erf(index, second, shifted)
                if inner and half != second:
                    return Node("Gelu", (second,), node.outputs), (first, *inner)
        halved = index.inner(first, "Mul")
        if halved is not None:
            for operand in halved.inputs:
                inner = _shifted_erf(index, operand, second)
                if inner:
                    return Node("Gelu", (operand,), node.outputs), (first, *inner)
    return None


def _shifted_erf(index: _Index, operand: str, shifted: str) -> tuple[str, ...]:
    add = index.inner(shifted, "Add")
    if add is None:
        return ()
    for name in add.inputs:
        erf = index.inner(name, "Erf")
        scaled = index.inner(erf.input(0), "Div", "Mul") if erf is not None else None
        if erf is not None and scaled is not None and operand in scaled.inputs:
            return (shifted, name, erf.input(0))
    return ()


def _linear(index: _Index, node: Node) -> _Found | None:
    """A product with a stored matrix, plus a stored vector."""
    if node.op_type != "Add" or len(node.inputs) != 2:
        return None
    for product_name, bias in (node.inputs, node.inputs[::-1]):
        product = index.inner(product_name, "MatMul")
        if (
            product is not None
            and index.stored_rank(product.input(1)) == 2
            and index.stored_rank(bias) == 1
        ):
            return Node("Linear", (*product.inputs, bias), node.outputs), (product_name,)
    return None


@dataclass(frozen=True, slots=True)
class Unfolded:
    """A graph as it is trained. ``folded`` counts the BatchNorms that were put back."""

    graph: Graph
    folded: int
    assumed: bool


def unfold_batch_norms(graph: Graph) -> Unfolded:
    """Put BatchNorm back behind the convolutions it was folded into, and biases that were dropped.

    A fold is certain where the exporter left its mark (the name of a weight it computed, the
    name of the rule it applied); it is assumed where a graph has no normalization at all, all of
    its convolutions have a bias, and it has residual additions or depthwise convolutions.
    """
    certain = {node.outputs[0] for node in graph.nodes if _is_marked(node)}
    folded = certain or _assumed_folds(graph)
    nodes: list[Node] = []
    initializers = dict(graph.initializers)
    for node in graph.nodes:
        name = node.outputs[0] if node.outputs else ""
        if node.op_type == "Conv" and name in folded:
            inner = f"{name}::before_batch_norm"
            nodes.append(replace(node.with_inputs(*node.inputs[:2]), outputs=(inner,)))
            nodes.append(Node("BatchNormalization", (inner,), (name,)))
        else:
            nodes.append(_with_dropped_bias(node, initializers))
    restored = replace(graph, nodes=tuple(nodes), initializers=initializers)
    return Unfolded(restored, len(folded), assumed=bool(folded) and not certain)


def _is_marked(node: Node) -> bool:
    return node.op_type == "Conv" and (
        "FuseBatchNormIntoConv" in node.metadata.get(_RULES, "")
        or _FOLDED_WEIGHT.fullmatch(node.input(1)) is not None
    )


def _assumed_folds(graph: Graph) -> set[str]:
    convolutions = [node for node in graph.nodes if node.op_type == "Conv"]
    if (
        any(node.op_type in _NORMALIZATIONS for node in graph.nodes)
        or len(convolutions) < 8
        or not all(node.input(2) for node in convolutions)
    ):
        return set()
    computed = {name for node in graph.nodes for name in node.outputs}
    has_residuals = any(
        node.op_type == "Add" and all(name in computed for name in node.inputs)
        for node in graph.nodes
    )
    has_depthwise = any(
        int(node.attributes.get("group", 1)) > 1
        and node.input(1) in graph.initializers
        and graph.initializers[node.input(1)].shape[1:2] == (1,)
        for node in convolutions
    )
    if not has_residuals and not has_depthwise:
        return set()
    pooled = {
        node.outputs[0]
        for node in graph.nodes
        if node.op_type in ("GlobalAveragePool", "ReduceMean")
    }
    return {node.outputs[0] for node in convolutions} - _behind_pooling(graph, pooled)


def _behind_pooling(graph: Graph, pooled: set[str]) -> set[str]:
    """Convolutions of a squeeze-and-excitation block, which have a bias of their own."""
    reached = set(pooled)
    convolutions = set()
    for node in graph.nodes:
        if node.op_type in ("Mul", "Add") or not any(name in reached for name in node.inputs):
            continue
        reached.update(node.outputs)
        if node.op_type == "Conv":
            convolutions.add(node.outputs[0])
    return convolutions


def _with_dropped_bias(node: Node, initializers: dict[str, StoredTensor]) -> Node:
    """Give a bias back that an optimizer removed because it was zero at the time."""
    rules, call = node.metadata.get(_RULES, ""), node.metadata.get(_FX_NODE, "")
    dropped = (
        node.op_type == "Conv"
        and "RemoveOptionalBiasFromConv" in rules
        and _CONVOLUTION_CALL.search(call)
    ) or (
        node.op_type == "Gemm"
        and "RemoveOptionalBiasFromGemm" in rules
        and _LINEAR_CALL.search(call)
    )
    weight = initializers.get(node.input(1))
    if not dropped or node.input(2) or weight is None or len(weight.shape) < 2:
        return node
    is_transposed = node.op_type == "Gemm" and not node.attributes.get("transB", 0)
    name = f"{node.outputs[0]}::bias"
    outputs = weight.shape[1] if is_transposed else weight.shape[0]
    initializers[name] = StoredTensor((outputs,), True, None)
    return node.with_inputs(node.inputs[0], node.inputs[1], name)
