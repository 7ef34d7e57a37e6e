"""Small ONNX graphs for tests, made by hand: weights have a shape and no values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Extent = int | str | None


def weight(name: str, *shape: int) -> TensorProto:
    """A stored tensor whose values were stripped."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT)
    tensor.dims.extend(shape)
    return tensor


def whole_numbers(name: str, *values: int) -> TensorProto:
    """A stored list of integers, as shapes and axes are."""
    return numpy_helper.from_array(np.array(values, dtype=np.int64), name)


def node(op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> onnx.NodeProto:
    """An operator with one output."""
    return helper.make_node(op_type, list(inputs), [output], **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    stored: Sequence[TensorProto] = (),
    *,
    input_shape: Sequence[Extent] = ("batch", 3, 32, 32),
    outputs: Sequence[str] = ("scores",),
) -> bytes:
    """The bytes of a file; the images are called ``images``."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, list(input_shape))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        list(stored),
    )
    opset = [helper.make_opsetid("", 20)]
    return bytes(helper.make_model(graph, opset_imports=opset).SerializeToString())


def without_weights(data: bytes) -> bytes:
    """The same file with the values of large tensors taken out."""
    proto = onnx.load_model_from_string(data)
    for tensor in proto.graph.initializer:
        if len(tensor.raw_data) > 1024:
            tensor.ClearField("raw_data")
    return bytes(proto.SerializeToString())


CLASSIFIER = (
    node("GlobalAveragePool", ["features"], "pooled"),
    node("Flatten", ["pooled"], "flat"),
    node("Gemm", ["flat", "fc.weight", "fc.bias"], "scores", transB=1),
)
CLASSIFIER_WEIGHTS = (weight("fc.weight", 10, 8), weight("fc.bias", 10))


def small_network(**options: Any) -> bytes:
    """Convolution, BatchNorm, ReLU, pooling and ten classes; 8 channels."""
    nodes = (
        node("Conv", ["images", "conv.weight"], "conv", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", ["conv", "bn.weight", "bn.bias", "bn.mean", "bn.var"], "bn"),
        node("Relu", ["bn"], "features"),
        *CLASSIFIER,
    )
    stored = (
        weight("conv.weight", 8, 3, 3, 3),
        *(weight(f"bn.{part}", 8) for part in ("weight", "bias", "mean", "var")),
        *CLASSIFIER_WEIGHTS,
    )
    return model(nodes, stored, **options)


def network_of(*middle: onnx.NodeProto, stored: Sequence[TensorProto] = ()) -> bytes:
    """A convolution to 8 channels called ``conv``, the given nodes up to ``features``, classes."""
    first = node("Conv", ["images", "conv.weight"], "conv", pads=[1, 1, 1, 1])
    return model(
        (first, *middle, *CLASSIFIER),
        (weight("conv.weight", 8, 3, 3, 3), *stored, *CLASSIFIER_WEIGHTS),
    )
