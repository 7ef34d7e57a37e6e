"""A traced network that somebody uploads."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarking.onnx_import.errors import MEBIBYTE, OnnxError, UploadError
from benchmarking.onnx_import.reader import read_onnx
from benchmarking.onnx_import.trace_json import read_trace_json
from benchmarking.specs import TracedNetwork
from benchmarking.tests.onnx_import.graphs import small_network
from benchmarking.tracing.fixture import format_traced_networks

NETWORK = read_onnx(small_network(), slug="my-net")


def document() -> dict[str, Any]:
    return json.loads(format_traced_networks([NETWORK], source="own"))


def refusal(data: bytes) -> UploadError:
    with pytest.raises(UploadError) as raised:
        read_trace_json(data)
    assert not isinstance(raised.value, OnnxError)
    assert "\n" not in str(raised.value)
    assert str(raised.value).endswith((".", "function."))
    return raised.value


def test_what_the_tracer_writes_comes_back():
    assert read_trace_json(format_traced_networks([NETWORK], source="own").encode()) == NETWORK


def _set(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        content["networks"][0][key] = value

    return change


def _set_operation(column: int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        content["networks"][0]["operations"][0][column] = value

    return change


def _set_use(column: int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        content["networks"][0]["convolutions"][0][column] = value

    return change


@pytest.mark.parametrize(
    ("change", "code", "part"),
    [
        (_set("parameters", -5), "bad_trace", "parameters must be a whole number"),
        (_set("saved_bytes_per_example", -1.0), "bad_trace", "saved_bytes_per_example must be"),
        (_set("saved_bytes_fixed", "many"), "bad_trace", "saved_bytes_fixed must be a number"),
        (_set("image_size", 100_000), "too_large_network", "image_size is 100,000"),
        (_set("multiply_adds", 5 * 10**17), "too_large_network", "multiply_adds is"),
        (_set("parameters", 10**12), "too_large_network", "parameters is 1,000,000,000,000"),
        (_set("saved_bytes_amp_fixed", 1e15), "too_large_network", "saved for the backward pass"),
        (_set("multiply_adds", 12), "inconsistent_trace", "multiply_adds is 12"),
        (_set("parameters", 2), "inconsistent_trace", "5 parameter tensors cannot hold 2"),
        (_set("slug", "../../etc"), "bad_trace", "no allowed name"),
        (_set("note", "x" * 1000), "bad_trace", "at most 300 characters"),
        (_set("minimum_batch_size", 0), "bad_trace", "minimum_batch_size must be"),
        (_set("extra", 1), "bad_trace", "unknown keys: extra"),
        (_set("convolutions", []), "no_convolutions", "no convolution layers"),
        (_set_use(1, 500), "inconsistent_trace", "the convolutions alone have"),
        (_set_use(1, 10**7), "bad_trace", "convolutions[0][1] must be"),
        (_set_use(0, 99), "bad_trace", "convolutions[0][0] must be"),
        (_set_operation(3, -7), "bad_trace", "operations[0][3] must be"),
        (_set_operation(2, 10**6), "too_large_network", "the number of operations is"),
        (lambda content: content.update(schema=99), "bad_trace", "has schema 99"),
        (lambda content: content.update(networks=[]), "bad_trace", "networks is empty"),
        (
            lambda content: content["convolutions"][0].__setitem__(1, -3),
            "bad_trace",
            "in_height must be a whole number",
        ),
    ],
)
def test_wrong_values_are_named(change, code, part):
    content = document()
    change(content)
    error = refusal(json.dumps(content).encode())
    assert error.code == code
    assert part in str(error)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "bad_trace"),
        (b"[1, 2]", "bad_trace"),
        (b"\xff\xfe", "not_json"),
        (b'{"schema": ' + b"9" * 5000 + b"}", "bad_trace"),
        (b"[" * 100_000, "bad_trace"),
        (b" " * (8 * MEBIBYTE + 1), "too_large"),
        (format_traced_networks([NETWORK], source="own").encode()[:-30], "bad_trace"),
        (json.dumps(document()).replace('"source"', '"sauce"').encode(), "bad_trace"),
    ],
)
def test_files_that_are_no_trace(data, code):
    assert refusal(data).code == code


def test_one_network_at_a_time():
    two = format_traced_networks([NETWORK, replace(NETWORK, slug="other")])
    error = refusal(two.encode())
    assert (error.code, str(error)) == (
        "several_networks",
        "The file holds 2 traced networks; upload one, at one image size.",
    )


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_changed_text_is_read_or_refused(data):
    text = bytearray(format_traced_networks([NETWORK], source="own").encode())
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(32, 126))
    try:
        network = read_trace_json(bytes(text))
    except UploadError as error:
        assert error.code
    else:
        assert isinstance(network, TracedNetwork)
        assert network.parameters > 0
