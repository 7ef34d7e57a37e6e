"""From ONNX nodes to operations on a tape: the registry and what every operator shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarking.onnx_import.errors import OnnxError
from benchmarking.onnx_import.graph import (
    LARGEST_CONSTANT_ELEMENTS,
    Array,
    Graph,
    Node,
    StoredTensor,
)
from benchmarking.onnx_import.tape import FLOAT, LONG, Tape, Tensor

if TYPE_CHECKING:
    from benchmarking.onnx_import.shapes import Cuts

LARGEST_TENSOR_ELEMENTS = 2**40

Lowering = Callable[["GraphRun", Node], None]

LOWERINGS: dict[str, Lowering] = {}
"""Operator name -> function that runs one node of it."""

COMPUTATIONS: dict[str, Callable[..., Any]] = {}
"""Operator name -> its value, of the node's attributes and the small constants it reads."""

_FRESH_OUTPUT = frozenset(
    {"Conv", "BatchNormalization", "Add", "Gemm", "Linear", "InstanceNormalization", "Concat"}
)
"""Operators that do not keep their own result, so that an activation may overwrite it."""

_READ_NO_VALUES = frozenset({"Shape", "Size", "CastLike", "RandomUniformLike", "RandomNormalLike"})
"""Operators that only look at a tensor's shape or type."""


def lowers(*op_types: str) -> Callable[[Lowering], Lowering]:
    """Register a function as the lowering of operators."""

    def register(function: Lowering) -> Lowering:
        for op_type in op_types:
            LOWERINGS[op_type] = function
        return function

    return register


class GraphRun:
    """One forward pass of a graph at one batch size.

    ``tensors`` holds computed tensors, ``constants`` the small values that shapes are made of,
    ``stored`` the tensors of the file. Parameters come into being when an operator asks for
    them: exporters merge equal initial values, so a name does not say how many there are.
    """

    def __init__(
        self, graph: Graph, tape: Tape, *, batch_size: int, image_shape: tuple[int, ...]
    ) -> None:
        self.tape = tape
        self.batch_size = batch_size
        self.exported_batch = graph.input_shape[0]
        self.stored: dict[str, StoredTensor] = dict(graph.initializers)
        self.tensors: dict[str, Tensor] = {graph.input_name: tape.new((batch_size, *image_shape))}
        self.constants: dict[str, Array] = {
            name: tensor.value
            for name, tensor in graph.initializers.items()
            if tensor.value is not None
        }
        self.masks: set[str] = set()
        """Random numbers on their way to becoming a dropout mask."""
        self.cuts: dict[str, Cuts] = {}
        """Slices of each tensor."""
        self.sequences: dict[str, list[Tensor]] = {}
        self._readers = Counter(
            name
            for node in graph.nodes
            if node.op_type not in _READ_NO_VALUES
            for name in node.inputs
        )
        self._readers.update(graph.outputs)
        self._producers = {name: node.op_type for node in graph.nodes for name in node.outputs}
        self._parameters: dict[str, Tensor] = {}
        self._aliases: dict[str, str] = {}

    def run(self, graph: Graph) -> None:
        """Run all nodes; raises ``OnnxError`` with the place of the first that is wrong."""
        for node in graph.nodes:
            try:
                self._run_node(node)
            except OnnxError:
                raise
            except (ArithmeticError, IndexError, KeyError, TypeError, ValueError) as error:
                raise OnnxError(
                    f"{node.op_type} ({_place(node)}) has inputs or attributes "
                    "that do not fit together.",
                    code="bad_node",
                ) from error

    def _run_node(self, node: Node) -> None:
        compute = COMPUTATIONS.get(node.op_type)
        if compute is not None and all(name in self.constants for name in node.inputs):
            values = [self.constants[name] for name in node.inputs]
            self.put_constant(node, compute(node.attributes, *values))
        elif node.op_type in LOWERINGS:
            LOWERINGS[node.op_type](self, node)
        else:
            raise OnnxError(
                f"{node.op_type} ({_place(node)}) is covered for shapes and constants only, not "
                "for images.",
                code="unsupported_operator",
            )

    def tensor(self, node: Node, position: int) -> Tensor:
        """The computed tensor at an input."""
        name = node.input(position)
        if name not in self.tensors:
            raise OnnxError(
                f"{node.op_type} ({_place(node)}) works on a constant where it should work on "
                "the images.",
                code="bad_node",
            )
        return self.tensors[name]

    def constant(self, node: Node, position: int) -> Array | None:
        """The value at an input, ``None`` if the input is left out.

        Raises ``OnnxError`` if the value is not in the file or depends on the images.
        """
        name = node.input(position)
        if not name:
            return None
        if name not in self.constants:
            raise OnnxError(
                f"{node.op_type} ({_place(node)}) needs a value that is not in the file; "
                "keep small constants inside when weights are stored outside.",
                code="missing_constant",
            )
        return self.constants[name]

    def integers(self, node: Node, position: int) -> tuple[int, ...] | None:
        """A constant as whole numbers."""
        value = self.constant(node, position)
        return None if value is None else tuple(int(each) for each in np.ravel(value))

    def stored_tensor(self, node: Node, position: int) -> StoredTensor | None:
        """The file's tensor at an input, if it is one."""
        return self.stored.get(node.input(position))

    def weight(self, node: Node, position: int, *, shared: bool) -> Tensor:
        """The parameter at an input. ``shared`` ones are one parameter for all their readers."""
        name = node.input(position)
        stored = self.stored.get(name)
        if stored is None:
            raise OnnxError(
                f"{node.op_type} ({_place(node)}) has weights that are computed in the graph, "
                "which is not covered.",
                code="computed_weights",
            )
        name = self._root(name)
        if not shared:
            return self.tape.parameter(stored.shape)
        if name not in self._parameters:
            self._parameters[name] = self.tape.parameter(stored.shape)
        known = self._parameters[name]
        return known if known.shape == stored.shape else self.tape.view(known, stored.shape)

    def stored_weight(self, node: Node) -> StoredTensor | None:
        """The first input where it is a stored tensor that may be a parameter."""
        name = node.input(0)
        stored = self.stored.get(name)
        is_weight = stored is not None and stored.is_float and name not in self.tensors
        return stored if is_weight else None

    def put_weight(self, node: Node, shape: Sequence[int]) -> None:
        """Store another shape of a parameter."""
        name = node.outputs[0]
        self.stored[name] = StoredTensor(tuple(shape), True, None)
        self._aliases[name] = node.inputs[0]

    def alias(self, name: str, source: str) -> None:
        """Let a name stand for what another stands for."""
        if source in self.tensors:
            self.tensors[name] = self.tensors[source]
        if source in self.constants:
            self.constants[name] = self.constants[source]
        if source in self.stored:
            self.stored[name] = self.stored[source]
            self._aliases[name] = source
        if source in self.masks:
            self.masks.add(name)

    def put(self, node: Node, tensor: Tensor, position: int = 0) -> None:
        """Store a result; raises ``OnnxError`` if it is empty or absurdly large."""
        if position >= len(node.outputs):
            return
        if tensor.elements <= 0:
            raise OnnxError(
                f"{node.op_type} ({_place(node)}) would give an empty tensor of shape "
                f"{tensor.shape}; the images are too small for this network.",
                code="image_too_small",
            )
        if tensor.elements > LARGEST_TENSOR_ELEMENTS:
            raise OnnxError(
                f"{node.op_type} ({_place(node)}) would give {tensor.elements:.1e} elements, "
                "more than any device holds.",
                code="bad_shape",
            )
        self.tensors[node.outputs[position]] = tensor

    def put_constant(self, node: Node, value: Any) -> None:
        """Store a small value; a large one only with its shape."""
        array = np.asarray(value)
        if array.size <= LARGEST_CONSTANT_ELEMENTS:
            self.constants[node.outputs[0]] = array
        else:
            self.put_shape(node, array.shape)

    def put_shape(self, node: Node, shape: tuple[int, ...], *, is_long: bool = False) -> None:
        """Store a tensor that no parameter leads to."""
        self.put(node, self.tape.new(shape, LONG if is_long else FLOAT))

    def overwrites(self, node: Node) -> bool:
        """Whether an activation may work in place, which is what networks are written for."""
        name = node.input(0)
        return self._readers[name] == 1 and self._producers.get(name) in _FRESH_OUTPUT

    def _root(self, name: str) -> str:
        while name in self._aliases:
            name = self._aliases[name]
        return name


def _place(node: Node) -> str:
    name = node.outputs[0] if node.outputs else ""
    return f"output {name[-60:]!r}" if name else "no output"


def attributes_pair(
    attributes: Mapping[str, Any], name: str, default: tuple[int, int]
) -> tuple[int, int]:
    """Two whole numbers for height and width."""
    values = attributes.get(name)
    if values is None:
        return default
    if len(values) != 2:
        raise OnnxError(
            f"Only two-dimensional operators on images are covered; {name} has "
            f"{len(values)} values.",
            code="not_two_dimensional",
        )
    return int(values[0]), int(values[1])


def broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of an elementwise operation on two shapes; raises ``ValueError``."""
    return tuple(int(extent) for extent in np.broadcast_shapes(left, right))
