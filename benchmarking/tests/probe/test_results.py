"""What the parser of the probe's lines takes, and what it refuses with which words."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarking.models import FailedTiming
from benchmarking.probe.results import (
    MAXIMUM_LINE_BYTES,
    ConvolutionLine,
    DoneLine,
    EnvironmentLine,
    ErrorLine,
    FailureKind,
    IterationLine,
    ResultError,
    StoppedBy,
    parse_line,
    parse_results,
    split_complete_lines,
)
from benchmarking.specs import ConvolutionSpec, Optimizer, Pass
from benchmarking.tests.factories import MIDDLE_LAYER
from benchmarking.tests.probe_lines import (
    as_bytes,
    convolution_line,
    done_line,
    environment_line,
    error_line,
    iteration_line,
)


def refusal(line: dict[str, Any]) -> str:
    with pytest.raises(ResultError) as refused:
        parse_line(as_bytes(line), 7)
    assert refused.value.line_number == 7
    return refused.value.reason


def test_convolution_line_becomes_a_record() -> None:
    samples = {"forward": [1, 2.5], "backward_filter": [3.0]}
    record = parse_line(as_bytes(convolution_line(samples_ms=samples)), 3)

    assert record == ConvolutionLine(
        line_number=3,
        layer=MIDDLE_LAYER,
        batch_size=4,
        round=1,
        samples_ms={Pass.FORWARD: (1.0, 2.5), Pass.BACKWARD_FILTER: (3.0,)},
    )


def test_iteration_line_becomes_a_record() -> None:
    record = parse_line(as_bytes(iteration_line(peak_memory_bytes=2**31, auxiliary_heads=True)))

    assert record == IterationLine(
        line_number=1,
        architecture="tinynet",
        image_size=32,
        auxiliary_heads=True,
        optimizer=Optimizer.SGD,
        batch_size=4,
        round=1,
        samples_ms=(10.0, 11.0),
        peak_memory_bytes=2**31,
    )


def test_error_lines_name_their_layer_or_architecture() -> None:
    of_layer = parse_line(as_bytes(error_line()))
    work = {"kind": "iteration", "architecture": "vgg16", "image_size": 224, "batch_size": 64}
    of_iteration = parse_line(as_bytes(error_line(work={**work, "round": 2})))

    assert of_layer == ErrorLine(
        line_number=1,
        kind=FailureKind.OUT_OF_MEMORY,
        message="CUDA out of memory",
        batch_size=512,
        round=1,
        layer=MIDDLE_LAYER,
    )
    assert isinstance(of_iteration, ErrorLine)
    assert (of_iteration.layer, of_iteration.architecture) == (None, "vgg16")
    assert (of_iteration.image_size, of_iteration.batch_size, of_iteration.round) == (224, 64, 2)


def test_kinds_of_failure_are_those_of_the_table() -> None:
    assert set(FailureKind) == set(FailedTiming.Kind.values)


def test_environment_line_becomes_a_record() -> None:
    line = environment_line(gpu={"name": "Tesla T4", "memory_mib": 15102})

    record = parse_line(as_bytes(line))

    assert isinstance(record, EnvironmentLine)
    assert record.run_id == uuid.UUID(line["run_id"])
    assert record.started_at.isoformat() == "2026-01-02T03:04:05+00:00"
    assert (record.machine, record.gpu_name) == ("local", "Tesla T4")
    assert (record.cpu_model, record.cpu_signature) == ("Test CPU", "6-1-1")
    assert record.cpu_memory_mib == 8192
    assert record.stack.label == "torch 2.14.1 · fp32 · 1 thread"
    assert record.record == line


def test_done_line_becomes_a_record() -> None:
    record = parse_line(as_bytes(done_line(left=3, stopped_by="time_budget")))

    assert isinstance(record, DoneLine)
    assert (record.completed, record.left, record.stopped_by) == (2, 3, StoppedBy.TIME_BUDGET)


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        ([], "must be a list of 1 to 10000 samples"),
        ("1.0", "must be a list of 1 to 10000 samples"),
        ([1.0] * 10_001, "must be a list of 1 to 10000 samples"),
        ([1.0, -0.5], "holds -0.5; a sample is above 0"),
        ([0], "holds 0; a sample is above 0"),
        ([1e9], "at most 86400000 ms"),
        ([True], "holds True, which is no number"),
        (["1"], "holds '1', which is no number"),
        ([None], "holds None, which is no number"),
    ],
)
def test_wrong_samples_are_refused(samples: Any, reason: str) -> None:
    assert reason in refusal(convolution_line(samples_ms={"forward": samples}))
    assert reason in refusal({**iteration_line(), "samples_ms": samples})


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_not_finite_are_refused(constant: str) -> None:
    line = as_bytes(iteration_line()).replace(b"11.0", constant.encode())

    with pytest.raises(ResultError, match=f"line 1: holds {constant}; every number must be finite"):
        parse_line(line)


def test_number_beyond_every_float_is_refused() -> None:
    with pytest.raises(ResultError, match="holds inf; a sample"):
        parse_line(as_bytes(iteration_line()).replace(b"11.0", b"1e999"))
    with pytest.raises(ResultError, match="a number that is not finite"):
        parse_line(as_bytes(environment_line()).replace(b"[0.1, ", b"[1e999, "))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"batch_size": 0}, "batch_size is 0; allowed are whole numbers from 1 to 1000000"),
        ({"batch_size": 1.5}, "batch_size is 1.5"),
        ({"batch_size": True}, "batch_size is True"),
        ({"batch_size": 10**7}, "batch_size is 10000000"),
        ({"round": 0}, "round is 0; allowed are whole numbers from 1 to 10000"),
        ({"samples_ms": {}}, "samples_ms holds no pass"),
        ({"samples_ms": {"sideways": [1]}}, "allowed are forward, backward_data, backward_filter"),
        ({"samples_ms": None}, "samples_ms must be an object"),
        ({"layer": None}, "layer must be an object"),
        ({"layer": {}}, "in_channels is None; allowed are whole numbers from 1"),
    ],
)
def test_wrong_convolution_lines_are_refused(change: dict[str, Any], reason: str) -> None:
    assert reason in refusal({**convolution_line(), **change})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"groups": 3}, "its groups do not divide its channels"),
        ({"kernel_height": 99}, "its kernel does not fit its input"),
        ({"stride_height": 0}, "stride_height is 0"),
        ({"padding_height": -1}, "padding_height is -1"),
        ({"bias": 1}, "bias is 1; allowed are true and false"),
        ({"colour": 1}, "layer has an unknown value 'colour'"),
    ],
)
def test_impossible_layers_are_refused(change: dict[str, Any], reason: str) -> None:
    line = convolution_line()
    line["layer"] = {**asdict(MIDDLE_LAYER), **change}

    assert reason in refusal(line)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"architecture": "../etc"}, "architecture is '../etc', which is no name of a network"),
        ({"architecture": "a" * 81}, "architecture must be a text of at most 80 characters"),
        ({"architecture": 5}, "architecture must be a text"),
        ({"optimizer": "lion"}, "optimizer is 'lion'; allowed are sgd, adamw"),
        ({"auxiliary_heads": None}, "auxiliary_heads is None; allowed are true and false"),
        ({"image_size": "224"}, "image_size is '224'"),
        ({"peak_memory_bytes": -1}, "peak_memory_bytes is -1"),
    ],
)
def test_wrong_iteration_lines_are_refused(change: dict[str, Any], reason: str) -> None:
    assert reason in refusal({**iteration_line(), **change})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema": 2}, "has schema 2; this version reads schema 1"),
        ({"schema": True}, "has schema True"),
        ({"schema": None}, "has schema None"),
        ({"run_id": "no"}, "run_id must be a UUID"),
        ({"started_at": "yesterday"}, "started_at must be an ISO date and time"),
        ({"started_at": "2026-01-02T03:04:05"}, "started_at lacks its offset from UTC"),
        ({"cpu": None}, "cpu must be an object"),
        ({"cpu": {"model": "x", "signature": 5}}, "signature must be a text"),
        ({"gpu": {"name": None}}, "name must be a text"),
        ({"machine": "x" * 81}, "machine must be a text of at most 80 characters"),
        ({"os": "Linux\x00"}, "holds a character that no text can have"),
        ({"os": "\ud800"}, "holds a character that no text can have"),
    ],
)
def test_wrong_environment_lines_are_refused(change: dict[str, Any], reason: str) -> None:
    assert reason in refusal({**environment_line(), **change})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"engine": "abacus"}, "engine is 'abacus'; allowed are torch, dnnmark"),
        ({"precision": "fp4"}, "precision is 'fp4'; allowed are fp32, tf32, amp"),
        ({"framework_version": ""}, "framework_version is empty"),
        ({"threads": 0}, "threads is 0"),
        ({"memory_format": "nhwc"}, "allowed are contiguous, channels_last"),
        ({"cudnn_benchmark": "no"}, "cudnn_benchmark is 'no'"),
    ],
)
def test_wrong_stacks_are_refused(change: dict[str, Any], reason: str) -> None:
    line = environment_line()
    line["stack"] = {**line["stack"], **change}

    assert reason in refusal(line)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"error": "tired"}, "error is 'tired'; allowed are out_of_memory, untrainable"),
        ({"message": None}, "message must be a text"),
        ({"work": None}, "work must be an object"),
        ({"work": {"kind": "poem"}}, "work is of kind 'poem'; allowed are convolution, iteration"),
    ],
)
def test_wrong_error_lines_are_refused(change: dict[str, Any], reason: str) -> None:
    assert reason in refusal({**error_line(), **change})


def test_wrong_end_of_a_run_is_refused() -> None:
    assert "stopped_by is 'boredom'; allowed are end_of_plan" in refusal(
        done_line(stopped_by="boredom")
    )
    assert "left is -1" in refusal(done_line(left=-1))


def test_long_message_of_an_error_is_cut() -> None:
    record = parse_line(as_bytes(error_line(message="no\x00 " + "x" * 5000)))

    assert isinstance(record, ErrorLine)
    assert record.message == "no " + "x" * 297


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "is not a JSON object"),
        (b"[1, 2]\n", "is not a JSON object"),
        (b"[" * 100_000, "is not a JSON object"),
        (b'{"type": "convolution"', "is not a JSON object"),
        (b'{"type": "poem"}', "has type 'poem'; allowed are environment, convolution"),
        (b'{"type": ["x"]}', "has type ['x']"),
        (b"{}", "has type None"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"9" * 5000, "is not a JSON object"),
        (b" " * (MAXIMUM_LINE_BYTES + 1), "is longer than 1,000,000 bytes"),
    ],
)
def test_what_is_no_line_of_a_probe_is_refused(line: bytes, reason: str) -> None:
    with pytest.raises(ResultError) as refused:
        parse_line(line)
    assert reason in refused.value.reason


def test_file_of_two_runs_is_read_in_its_order() -> None:
    data = as_bytes(
        environment_line(), convolution_line(), done_line(), environment_line(), iteration_line()
    )

    records = list(parse_results(data.splitlines(keepends=True)))

    assert [type(record) for record in records] == [
        EnvironmentLine,
        ConvolutionLine,
        DoneLine,
        EnvironmentLine,
        IterationLine,
    ]
    assert [record.line_number for record in records] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "line 1: the file is empty"),
        (as_bytes(convolution_line()), "line 1: comes before an environment line"),
        (
            as_bytes(environment_line(), done_line(), convolution_line()),
            "line 3: comes before an environment line",
        ),
        (
            as_bytes(environment_line(), convolution_line())[:-20],
            "line 2: is cut off, the file is truncated",
        ),
        (
            as_bytes(environment_line()) + b"garbage\n" + as_bytes(done_line()),
            "line 2: is not a JSON object",
        ),
    ],
)
def test_wrong_files_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(ResultError, match=message):
        list(parse_results(data.splitlines(keepends=True)))


def test_whole_last_line_without_an_end_is_taken() -> None:
    data = as_bytes(environment_line(), convolution_line()).rstrip(b"\n")

    assert len(list(parse_results(data.splitlines(keepends=True)))) == 2


def test_line_still_being_written_is_left_for_later() -> None:
    assert split_complete_lines(b'{"a": 1}\n{"b"') == ([b'{"a": 1}\n'], 9)
    assert split_complete_lines(b'{"b"') == ([], 0)
    assert split_complete_lines(b"") == ([], 0)


def test_line_that_never_ends_is_refused() -> None:
    with pytest.raises(ResultError, match="line 2: is longer than 1,000,000 bytes"):
        split_complete_lines(b"{}\n" + b"x" * (MAXIMUM_LINE_BYTES + 1))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=10), children, max_size=4)
    ),
    max_leaves=10,
)


@given(st.binary(max_size=300))
@example(b"\xed\xa0\x80")
def test_no_bytes_break_the_parser(data: bytes) -> None:
    try:
        parse_line(data)
    except ResultError as error:
        assert str(error).startswith("line 1: ")
        assert "\n" not in str(error)


@given(
    st.sampled_from(
        [convolution_line(), iteration_line(), error_line(), done_line(), environment_line()]
    ),
    st.data(),
)
def test_no_value_in_any_place_breaks_the_parser(line: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(line)))
    changed = {**line, key: data.draw(json_values)}
    encoded = json.dumps(changed).encode("utf-8", errors="surrogatepass")
    try:
        record = parse_line(encoded)
    except ResultError as error:
        assert len(str(error)) < 300
        assert "\n" not in str(error)
    else:
        # Whatever is taken can be stored as JSON again.
        if isinstance(record, EnvironmentLine | DoneLine):
            json.dumps(record.record, allow_nan=False)


sizes = st.integers(min_value=1, max_value=512)


@st.composite
def layers(draw: st.DrawFn) -> ConvolutionSpec:
    groups = draw(st.sampled_from([1, 2, 8]))
    kernel = draw(st.integers(1, 7))
    return ConvolutionSpec(
        in_channels=groups * draw(st.integers(1, 64)),
        in_height=draw(st.integers(kernel, 300)),
        in_width=draw(st.integers(kernel, 300)),
        out_channels=groups * draw(st.integers(1, 64)),
        kernel_height=kernel,
        kernel_width=kernel,
        stride_height=draw(st.integers(1, 4)),
        stride_width=draw(st.integers(1, 4)),
        padding_height=draw(st.integers(0, 3)),
        padding_width=draw(st.integers(0, 3)),
        groups=groups,
        bias=draw(st.booleans()),
    )


@given(
    layers(),
    sizes,
    st.dictionaries(
        st.sampled_from([operation.value for operation in Pass]),
        st.lists(st.floats(min_value=1e-6, max_value=1e6), min_size=1, max_size=10),
        min_size=1,
    ),
)
def test_every_possible_timing_comes_back_as_it_was(
    layer: ConvolutionSpec, batch_size: int, samples_ms: dict[str, list[float]]
) -> None:
    line = convolution_line(layer=layer, batch_size=batch_size, samples_ms=samples_ms)

    record = parse_line(as_bytes(line))

    assert isinstance(record, ConvolutionLine)
    assert (record.layer, record.batch_size) == (layer, batch_size)
    assert {key.value: list(value) for key, value in record.samples_ms.items()} == samples_ms


@given(st.lists(st.binary(max_size=20), max_size=6), st.integers(0, 200))
def test_lines_arrive_whole_wherever_a_fetch_is_cut(parts: list[bytes], cut: int) -> None:
    data = b"".join(part.replace(b"\n", b" ") + b"\n" for part in parts)
    first, consumed = split_complete_lines(data[:cut])

    rest, _ = split_complete_lines(data[consumed:])

    assert b"".join(first + rest) == data
