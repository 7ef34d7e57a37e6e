"""The part of an ONNX file that a forecast needs: nodes, shapes and small constants.

Weights may be missing, external or empty; only their shapes are read. The result is ordered so
that every node comes after the nodes it reads from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from benchmarking.onnx_import.errors import LARGEST_FILE_BYTES, MEBIBYTE, OnnxError
from benchmarking.onnx_import.prescan import (
    INITIALIZER_FIELD,
    NODE_FIELD,
    refuse_too_many_entries,
)

LARGEST_NODES = 20_000
LARGEST_INITIALIZERS = 50_000
LARGEST_EXTENT = 1_000_000
LARGEST_CONSTANT_ELEMENTS = 4096
"""Constants up to this size are read: they hold shapes, axes and scalars."""

_ARCHIVES = {
    b"PK\x03\x04": "a zip archive",
    b"PK\x05\x06": "a zip archive",
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ\x00": "an xz archive",
    b"7z\xbc\xaf": "a 7z archive",
}
_STANDARD_DOMAINS = ("", "ai.onnx")
_FLOATS = frozenset(
    {
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.FLOAT16,
        onnx.TensorProto.BFLOAT16,
        onnx.TensorProto.DOUBLE,
    }
)

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor inside the file: its shape, and its value where it is small and present."""

    shape: tuple[int, ...]
    is_float: bool
    value: Array | None

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Node:
    """One operator; an optional input that is left out has the name ``""``."""

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)

    def input(self, position: int) -> str:
        """Name of an input, ``""`` where there is none."""
        return self.inputs[position] if position < len(self.inputs) else ""

    def with_inputs(self, *inputs: str) -> Node:
        """The same node with other inputs."""
        return replace(self, inputs=inputs)


@dataclass(frozen=True, slots=True)
class Graph:
    """A checked graph; ``input_shape`` has ``None`` where a dimension is symbolic."""

    nodes: tuple[Node, ...]
    initializers: Mapping[str, StoredTensor]
    input_name: str
    input_shape: tuple[int | None, ...]
    outputs: tuple[str, ...]


def parse_graph(data: bytes, supported: Iterable[str]) -> Graph:
    """Read an ONNX file whose operators are all among ``supported``; raises ``OnnxError``."""
    _refuse_other_files(data)
    try:
        refuse_too_many_entries(
            data,
            {
                NODE_FIELD: (LARGEST_NODES, "nodes"),
                INITIALIZER_FIELD: (LARGEST_INITIALIZERS, "stored tensors"),
            },
        )
        model = onnx.load_model_from_string(data)
    except OnnxError:
        raise
    except (DecodeError, ValueError, RecursionError) as error:
        raise OnnxError(
            "The file is no ONNX model or is cut off; upload the .onnx file as exported.",
            code="not_onnx",
        ) from error
    proto = model.graph
    if not proto.node:
        raise OnnxError("The ONNX file holds no graph with operators.", code="empty_graph")
    _refuse_unsupported(proto, frozenset(supported))
    initializers = {_text(tensor.name): _stored(tensor) for tensor in proto.initializer}
    nodes = [_node(each) for each in proto.node]
    input_name, input_shape, weights = _network_input(proto, initializers, nodes)
    initializers.update(weights)
    return Graph(
        nodes=_sorted(nodes, {*initializers, input_name}),
        initializers=initializers,
        input_name=input_name,
        input_shape=input_shape,
        outputs=tuple(_text(output.name) for output in proto.output),
    )


def _refuse_other_files(data: bytes) -> None:
    if len(data) > LARGEST_FILE_BYTES:
        raise OnnxError(
            f"The file has {len(data) / MEBIBYTE:.0f} MiB; at most "
            f"{LARGEST_FILE_BYTES // MEBIBYTE} are allowed: weights are not needed, so save it "
            "with onnx.save_model(model, path, save_as_external_data=True) and upload the .onnx "
            "file alone.",
            code="too_large",
        )
    if not data:
        raise OnnxError("The file is empty.", code="not_onnx")
    for magic, kind in _ARCHIVES.items():
        if data.startswith(magic):
            raise OnnxError(
                f"The file is {kind}; upload the .onnx file itself, uncompressed.", code="archive"
            )


def _refuse_unsupported(proto: Any, supported: frozenset[str]) -> None:
    unknown = sorted(
        {
            _text(node.op_type)
            if node.domain in _STANDARD_DOMAINS
            else f"{_text(node.domain)}.{_text(node.op_type)}"
            for node in proto.node
            if node.domain not in _STANDARD_DOMAINS or node.op_type not in supported
        }
    )
    if unknown:
        named = ", ".join(_printable(name) for name in unknown[:8])
        more = f" and {len(unknown) - 8} more" if len(unknown) > 8 else ""
        raise OnnxError(
            f"The graph has operators that are not covered: {named}{more}; covered are "
            f"{', '.join(sorted(supported))}.",
            code="unsupported_operator",
        )


def _text(value: str | bytes) -> str:
    """A text of the file; the parser hands out bytes where it is no UTF-8."""
    if isinstance(value, bytes):
        raise OnnxError(
            "The file holds a name that is no text; upload the .onnx file as exported.",
            code="not_onnx",
        )
    return value


def _printable(text: str) -> str:
    kept = "".join(character for character in text if character.isprintable())
    return kept[:40] or "(no name)"


def _stored(tensor: Any) -> StoredTensor:
    shape = tuple(int(extent) for extent in tensor.dims)
    if len(shape) > 8 or any(not 0 <= extent <= 10**9 for extent in shape):
        raise OnnxError(
            f"The stored tensor {_printable(tensor.name)!r} has an impossible shape.",
            code="bad_shape",
        )
    is_float = tensor.data_type in _FLOATS
    value = None
    external = tensor.data_location == onnx.TensorProto.EXTERNAL
    if math.prod(shape) <= LARGEST_CONSTANT_ELEMENTS and not external:
        try:
            value = np.asarray(onnx.numpy_helper.to_array(tensor))
        except Exception:  # stripped of its data: the shape is enough for a weight
            value = None
        if value is not None and value.dtype.kind not in "biuf":
            value = value.astype(np.float32) if is_float else None
    return StoredTensor(shape, is_float, value)


def _node(proto: Any) -> Node:
    return Node(
        op_type=_text(proto.op_type),
        inputs=tuple(map(_text, proto.input)),
        outputs=tuple(map(_text, proto.output)),
        attributes={_text(each.name): _attribute(each) for each in proto.attribute},
        metadata={_text(prop.key): _text(prop.value) for prop in proto.metadata_props},
    )


def _attribute(proto: Any) -> Any:
    kinds = onnx.AttributeProto
    match proto.type:
        case kinds.INT:
            return int(proto.i)
        case kinds.FLOAT:
            return float(proto.f)
        case kinds.STRING:
            return proto.s.decode("utf-8", "replace")
        case kinds.INTS:
            return tuple(int(value) for value in proto.ints[:LARGEST_CONSTANT_ELEMENTS])
        case kinds.FLOATS:
            return tuple(float(value) for value in proto.floats[:LARGEST_CONSTANT_ELEMENTS])
        case kinds.TENSOR:
            return _stored(proto.t)
    return None


def _network_input(
    proto: Any, initializers: Mapping[str, StoredTensor], nodes: list[Node]
) -> tuple[str, tuple[int | None, ...], dict[str, StoredTensor]]:
    """The image input; other inputs are weights if they stand where weights stand."""
    declared = [value for value in proto.input if _text(value.name) not in initializers]
    weight_names = {
        name
        for node in nodes
        if node.op_type in ("Conv", "Gemm", "MatMul", "BatchNormalization", "LayerNormalization")
        for name in node.inputs[1:]
    }
    images = [value for value in declared if value.name not in weight_names]
    if len(images) != 1:
        names = ", ".join(_printable(value.name) for value in images[:5]) or "none"
        raise OnnxError(
            f"The graph must have one input, the batch of images; it has {len(images)} ({names}).",
            code="inputs",
        )
    weights = {}
    for value in declared:
        if value.name in weight_names:
            shape = _declared_shape(value)
            if any(extent is None for extent in shape):
                raise OnnxError(
                    f"The weight {_printable(value.name)!r} has no fixed shape.", code="bad_shape"
                )
            weights[value.name] = StoredTensor(tuple(e or 0 for e in shape), True, None)
    return images[0].name, _declared_shape(images[0]), weights


def _declared_shape(value: Any) -> tuple[int | None, ...]:
    shape = []
    for dimension in value.type.tensor_type.shape.dim:
        extent = int(dimension.dim_value) if dimension.HasField("dim_value") else None
        if extent is not None and not -1 <= extent <= LARGEST_EXTENT:
            raise OnnxError(
                f"The input {_printable(value.name)!r} has an impossible shape.", code="bad_shape"
            )
        # Exporters write a symbolic dimension as a name, as nothing, as 0 or as -1.
        shape.append(extent if extent and extent > 0 else None)
    return tuple(shape)


def _sorted(nodes: list[Node], known: set[str]) -> tuple[Node, ...]:
    """Nodes in an order in which they can run; raises ``OnnxError`` where there is none."""
    producer: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for name in node.outputs:
            if name and (name in producer or name in known):
                raise OnnxError(
                    f"Two nodes write the tensor {_printable(name)!r}.", code="duplicate_output"
                )
            producer[name] = number
    waiting: list[int] = [0] * len(nodes)
    readers: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        for name in set(node.inputs):
            if not name or name in known:
                continue
            if name not in producer:
                raise OnnxError(
                    f"{_printable(node.op_type)} reads the tensor {_printable(name)!r}, "
                    "which nothing in the graph writes.",
                    code="missing_tensor",
                )
            waiting[number] += 1
            readers.setdefault(producer[name], []).append(number)
    ready = [number for number in range(len(nodes)) if waiting[number] == 0]
    order = []
    for number in ready:
        order.append(nodes[number])
        for reader in readers.get(number, ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    if len(order) < len(nodes):
        stuck = next(node for number, node in enumerate(nodes) if waiting[number])
        raise OnnxError(
            f"The graph has a cycle through a {_printable(stuck.op_type)} node "
            f"({_printable(stuck.outputs[0]) if stuck.outputs else 'no output'}).",
            code="cycle",
        )
    return tuple(order)
