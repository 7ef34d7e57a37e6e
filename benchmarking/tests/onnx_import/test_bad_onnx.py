"""Every way a graph can be wrong is one sentence with a code."""

from __future__ import annotations

import gzip
import io
import zipfile

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarking.onnx_import import graph as graph_module
from benchmarking.onnx_import.errors import LARGEST_FILE_BYTES, OnnxError
from benchmarking.onnx_import.prescan import MalformedError, refuse_too_many_entries
from benchmarking.onnx_import.reader import read_onnx
from benchmarking.specs import TracedNetwork
from benchmarking.tests.onnx_import.graphs import (
    model,
    network_of,
    node,
    small_network,
    weight,
    whole_numbers,
)


def refusal(data: bytes, **options) -> OnnxError:
    with pytest.raises(OnnxError) as raised:
        read_onnx(data, slug="own", **options)
    message = str(raised.value)
    assert "\n" not in message
    assert message.endswith(".")
    return raised.value


def zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net.onnx", content)
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "not_onnx"),
        (b"hello, this is no model", "not_onnx"),
        (small_network()[:-40], "not_onnx"),
        (small_network()[:200], "not_onnx"),
        (zipped(b"\0" * 10_000_000), "archive"),
        (gzip.compress(small_network()), "archive"),
        (b"\0" * (LARGEST_FILE_BYTES + 1), "too_large"),
        (onnx.ModelProto(ir_version=9).SerializeToString(), "empty_graph"),
    ],
)
def test_files_that_are_no_model(data, code):
    assert refusal(data).code == code


def test_unknown_operators_are_listed_with_what_is_covered():
    data = network_of(
        node("LSTM", ["conv"], "a"),
        node("ConvTranspose", ["a", "conv.weight"], "b"),
        node("FusedThing", ["b"], "features", domain="com.example"),
    )
    error = refusal(data)
    assert error.code == "unsupported_operator"
    assert str(error).startswith(
        "The graph has operators that are not covered: ConvTranspose, LSTM, "
        "com.example.FusedThing; covered are Abs, Add, "
    )


def test_cycle():
    data = network_of(
        node("Add", ["conv", "b"], "a"), node("Relu", ["a"], "b"), node("Relu", ["b"], "features")
    )
    error = refusal(data)
    assert error.code == "cycle"
    assert str(error) == "The graph has a cycle through a Add node (a)."


def test_nodes_in_any_order_are_read():
    ordered = onnx.load_model_from_string(small_network())
    shuffled = onnx.ModelProto()
    shuffled.CopyFrom(ordered)
    del shuffled.graph.node[:]
    shuffled.graph.node.extend(reversed(ordered.graph.node))
    assert read_onnx(shuffled.SerializeToString(), slug="own") == read_onnx(
        ordered.SerializeToString(), slug="own"
    )


def test_a_million_nodes_are_refused_before_they_are_parsed(monkeypatch):
    one = node("Relu", ["a"], "b").SerializeToString()
    entry = b"\x0a" + bytes([len(one)]) + one
    content = entry * 1_000_000
    length, size = b"", len(content)
    while size > 0x7F:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    data = b"\x3a" + length + bytes([size]) + content

    def must_not_parse(_):
        raise AssertionError("the parser saw a million nodes")

    monkeypatch.setattr(graph_module.onnx, "load_model_from_string", must_not_parse)
    error = refusal(data)
    assert error.code == "too_many_nodes"
    assert str(error) == "The graph has more than 20,000 nodes, which is the most allowed."


def test_the_walk_over_bytes_counts_what_the_parser_sees():
    data = small_network()
    refuse_too_many_entries(data, {1: (6, "nodes"), 5: (7, "stored tensors")})
    with pytest.raises(OnnxError):
        refuse_too_many_entries(data, {1: (5, "nodes")})
    with pytest.raises(OnnxError):
        refuse_too_many_entries(data, {5: (6, "stored tensors")})
    for malformed in (b"\x0a", b"\x0a\x05abc", b"\x0b", b"\xff" * 12, b"\x00\x00"):
        with pytest.raises(MalformedError):
            refuse_too_many_entries(malformed, {})


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (model((node("Relu", ["images"], "scores"),)), "no_convolutions"),
        (network_of(node("Relu", ["nowhere"], "features")), "missing_tensor"),
        (
            network_of(node("Relu", ["conv"], "features"), node("Abs", ["conv"], "features")),
            "duplicate_output",
        ),
        (small_network(input_shape=("n", 3, 32, 48)), "not_square"),
        (small_network(input_shape=("n", 3, 32)), "input_shape"),
        (small_network(input_shape=("n", None, 32, 32)), "input_shape"),
        (small_network(input_shape=("n", 3, 5000, 5000)), "image_size"),
        (small_network(input_shape=("n", 4, 32, 32)), "bad_convolution"),
        (small_network(outputs=("pooled",)), "bad_trace"),
        (
            network_of(
                node("Conv", ["conv", "w"], "features"), stored=(weight("w", 8, 8, 99, 99),)
            ),
            "image_too_small",
        ),
        (
            network_of(node("MaxPool", ["conv"], "features", kernel_shape=[64, 64])),
            "image_too_small",
        ),
        (
            network_of(node("Conv", ["conv", "w"], "features"), stored=(weight("w", 8, 8, 3),)),
            "not_two_dimensional",
        ),
        (
            network_of(
                node("Resize", ["conv", "", "", "to"], "features"),
                stored=(whole_numbers("to", 1, 8, 2**30, 2**30),),
            ),
            "bad_shape",
        ),
        (
            network_of(
                node("Reshape", ["conv", "to"], "features"), stored=(whole_numbers("to", 7, 7),)
            ),
            "bad_node",
        ),
        (
            network_of(node("Reshape", ["conv", "to"], "features"), stored=(weight("to", 4),)),
            "missing_constant",
        ),
        (
            network_of(node("Sigmoid", ["conv"], "s"), node("Equal", ["conv", "s"], "features")),
            "unsupported_operator",
        ),
        (
            network_of(
                node("Conv", ["conv", "w"], "unused"),
                node("Relu", ["conv"], "features"),
                stored=(weight("w", 8, 8, 1, 1),),
            ),
            "untrained_layer",
        ),
    ],
)
def test_graphs_that_do_not_fit(data, code):
    if code == "bad_trace":
        # Scores of shape batch x 8 x 1 x 1 are a map of classes and train.
        assert isinstance(read_onnx(data, slug="own"), TracedNetwork)
        return
    assert refusal(data).code == code


def test_another_image_size_than_the_graph_is_made_for():
    error = refusal(small_network(), image_size=64)
    assert error.code == "image_size"
    assert str(error) == (
        "The graph is made for images of 32 pixels, not 64; export it with a symbolic height and "
        "width to choose."
    )


def test_two_inputs_are_named():
    proto = onnx.load_model_from_string(small_network())
    proto.graph.input.add(name="lengths")
    error = refusal(proto.SerializeToString())
    assert error.code == "inputs"
    assert "it has 2 (images, lengths)" in str(error)


def test_weights_as_inputs_are_weights():
    proto = onnx.load_model_from_string(small_network())
    for stored in list(proto.graph.initializer):
        proto.graph.input.append(
            onnx.helper.make_tensor_value_info(stored.name, 1, list(stored.dims))
        )
    del proto.graph.initializer[:]
    assert read_onnx(proto.SerializeToString(), slug="own") == read_onnx(
        small_network(), slug="own"
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_changed_bytes_are_read_or_refused(data):
    content = bytearray(small_network())
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(read_onnx(bytes(content), slug="own"), TracedNetwork)
    except OnnxError as error:
        assert error.code
        assert "\n" not in str(error)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_refused(content):
    assert refusal(content).code in {"not_onnx", "empty_graph", "archive"}


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["Conv", "MaxPool", "AveragePool", "Split", "Pad", "Transpose", "Concat"]),
    st.dictionaries(
        st.sampled_from(
            ["pads", "strides", "kernel_shape", "dilations", "group", "axis", "perm", "split"]
        ),
        st.one_of(
            st.integers(-(2**62), 2**62), st.lists(st.integers(-3, 9), min_size=1, max_size=5)
        ),
        max_size=4,
    ),
)
def test_wild_attributes_are_read_or_refused(op_type, attributes):
    inputs = ["conv", "w"] if op_type == "Conv" else ["conv"]
    data = network_of(
        node(op_type, inputs, "features", **attributes), stored=(weight("w", 8, 8, 3, 3),)
    )
    try:
        assert isinstance(read_onnx(data, slug="own"), TracedNetwork)
    except OnnxError as error:
        assert error.code
