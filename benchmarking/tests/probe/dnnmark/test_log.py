"""What DNNMark prints. The formats are the recorded ones; the numbers in them are made up."""

from __future__ import annotations

import pytest

from benchmarking.probe.dnnmark.log import LogError, LogParser, Section

FORWARD = """DNNMark suites version 2.1: Start...
Using MBS 64
n=64 Operation ConvFwd_0: GPU time 0.232000ms, CPU time 0.011000ms
n=64 Operation ConvFwd_0: GPU time 0.116000ms, CPU time 0.011000ms
n=64 Operation ConvFwd_0: GPU time 1.18e-01ms, CPU time 1.1e-02ms
n=64 FWD time(ms): 0.466000
"""
BACKWARD = """n=64 Operation ConvBwdFilter_0: GPU time 0.500000ms, CPU time 0.011000ms
n=64 Operation ConvBwdData_0: GPU time 0.300000ms, CPU time 0.011000ms
n=64 Operation ConvBwdFilter_0: GPU time 0.400000ms, CPU time 0.011000ms
n=64 Operation ConvBwdData_0: GPU time 2.5E-1ms, CPU time 0.011000ms
n=64 BWD time(ms): 1.450000
"""
GLOG = """I0101 12:00:00.000000   123 test_bwd_conv.cc:13] DNNMark suites: Start...
I0101 12:00:00.100000   123 timer.h:98] ConvBwdFilter_0: 0.123ms
I0101 12:00:00.200000   123 timer.h:98] ConvBwdData_0: 1.25e-1ms
I20260101 12:00:00.300000   123 dnnmark.cc:20] Total running time(ms): 0.248
"""


def parsed(text: str, batch_size: int | None = None) -> list[Section]:
    parser = LogParser(batch_size)
    for line in text.encode().splitlines(keepends=True):
        parser.feed(line)
    return parser.finish()


def times(text: str, batch_size: int | None = None) -> dict[int | None, dict[str, list[float]]]:
    (section,) = parsed(text, batch_size)
    return {batch.batch_size: batch.samples_ms for batch in section.batches}


def refusal(text: str) -> str:
    with pytest.raises(LogError) as refused:
        parsed(text)
    return str(refused.value)


def test_forward_and_backward_tables_of_the_fork() -> None:
    assert times(FORWARD + BACKWARD) == {
        64: {
            "forward": [0.232, 0.116, 0.118],
            "backward_filter": [0.5, 0.4],
            "backward_data": [0.3, 0.25],
        }
    }


def test_each_batch_size_has_its_own_times() -> None:
    small = "n=1 Operation ConvFwd_0: GPU time 0.02ms, CPU time 0.01ms\nn=1 FWD time(ms): 0.02\n"

    assert times(small + FORWARD) == {
        1: {"forward": [0.02]},
        64: {"forward": [0.232, 0.116, 0.118]},
    }


def test_batch_sizes_may_be_in_exponent_form() -> None:
    text = FORWARD.replace("n=64", "n=6.4e+01").replace("Using MBS 64\n", "")

    assert list(times(text)) == [64]


@pytest.mark.parametrize("left_out_of", ["Operation", "FWD"])
def test_lines_without_a_batch_size_take_it_from_the_others(left_out_of: str) -> None:
    text = FORWARD.replace(f"n=64 {left_out_of}", left_out_of).replace("Using MBS 64\n", "")

    assert times(text) == {64: {"forward": [0.232, 0.116, 0.118]}}


@pytest.mark.parametrize("told_by", ["Using MBS 8", "n=8", "# batch_size: 8"])
def test_single_batch_programs_name_none(told_by: str) -> None:
    text = FORWARD.replace("n=64 ", "").replace("Using MBS 64\n", "")

    assert list(times(f"{told_by}\n{text}")) == [8]
    assert list(times(text, batch_size=8)) == [8]
    assert list(times(text)) == [None]


def test_upstream_logs_through_glog() -> None:
    assert times(GLOG, batch_size=16) == {
        16: {"backward_filter": [0.123], "backward_data": [0.125]}
    }


def test_what_the_fork_logs_as_well_counts_once() -> None:
    logged = "I0101 12:00:00.100000   123 timer.h:98] ConvFwd_0: 0.116ms\n"

    assert times(FORWARD + logged) == times(FORWARD)
    assert times(logged + FORWARD) == times(FORWARD)


def test_glog_of_several_batch_sizes_is_refused() -> None:
    text = "Using MBS 8\nUsing MBS 16\n" + GLOG

    assert refusal(text) == (
        "line 4: names no batch size, and there are several; run with --detailedtime"
    )


def test_sum_without_a_table_checks_what_is_logged() -> None:
    assert times("BWD time(ms): 0.248\n" + GLOG, batch_size=4)
    assert refusal("BWD time(ms): 0.348\n" + GLOG).startswith("line 3: the sum BWD of batch size")


def test_text_of_a_shell_in_between_is_passed_over() -> None:
    warm_up = "1/100 clock 97.1%, time 3ms, temp: 41\u02daC\n\n"
    gpu = "GPU0: Tesla V100-SXM2-16GB, 16160 MiB, 0 MiB, P0\n"

    (section,) = parsed(warm_up + gpu + FORWARD)

    assert section.headers == {"gpu": "Tesla V100-SXM2-16GB"}
    assert section.batches[0].samples_ms["forward"] == [0.232, 0.116, 0.118]


def test_headings_and_configurations_begin_a_layer() -> None:
    text = (
        "# machine: aws-p3.2xlarge\n"
        "NVDRV:470.57.02,CUDA:11.3,cuDNN:8.2.1\n"
        f"# layer: 224-224-3-64-3-1-1\n{FORWARD}"
        f"# layer: 224-224-64-64-3-1-1\n{FORWARD}"
        f"[Convolution]\nc=64\nh=112\nn=8,64\n{FORWARD}"
    )

    first, second, third = parsed(text)

    assert first.headers["layer"] == "224-224-3-64-3-1-1"
    assert second.headers["layer"] == "224-224-64-64-3-1-1"
    assert third.configured == {"c": "64", "h": "112", "n": "8,64"}
    assert "layer" not in third.headers
    for section in (first, second, third):
        assert section.headers["machine"] == "aws-p3.2xlarge"
        assert (section.headers["cuda"], section.headers["cudnn"]) == ("11.3", "8.2.1")
        assert section.batches[0].samples_ms == {"forward": [0.232, 0.116, 0.118]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "CUDA Error at /DNNMark/core/include/data_manager.h63\nout of memory\n",
            "CUDA error: out of memory",
        ),
        ("CUDA Error at /DNNMark/core/include/data_manager.h63\n", "CUDA Error at /DNNMark/"),
        (
            "CUDNN Error at /DNNMark/core/dnn_wrapper.h112CUDNN_STATUS_NOT_SUPPORTED\n",
            "CUDNN Error at /DNNMark/core/dnn_wrapper.h112CUDNN_STATUS_NOT_SUPPORTED",
        ),
        ("F0101 12:00:00.000000 1 dnn_param.h:228] algofwd: Keywords not exists\n", "algofwd: Key"),
    ],
)
def test_failures_are_results_of_their_batch_size(text: str, message: str) -> None:
    (section,) = parsed(FORWARD + "Using MBS 128\n" + text)

    (failure,) = section.failures
    assert failure.batch_size == 128
    assert failure.message.startswith(message)
    assert [batch.batch_size for batch in section.batches] == [64]


LINE = "n=64 Operation ConvFwd_0: GPU time 0.116000ms, CPU time 0.011000ms"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (LINE[:-4], "is cut off or damaged"),
        (LINE[:45], "is cut off or damaged"),
        (LINE.replace("0.116000", "nan"), "holds 'nan', which is no number of 0 or more"),
        (LINE.replace("0.116000", "inf"), "holds 'inf', which is no number of 0 or more"),
        (LINE.replace("0.116000", "1e999"), "holds '1e999', which is no number of 0 or more"),
        (LINE.replace("0.116000", "-0.1"), "holds '-0.1', which is no number of 0 or more"),
        (LINE.replace("0.011000", "-0.1"), "holds '-0.1', which is no number of 0 or more"),
        (LINE.replace("0.116000", "1_0"), "holds '1_0', which is no number of 0 or more"),
        (LINE.replace("0.116000", "0.0"), "holds 0.0 ms; a time is above 0 and at most 86400000"),
        (LINE.replace("0.116000", "9e9"), "holds 9e9 ms; a time is above 0 and at most 86400000"),
        (LINE.replace("ConvFwd", "ConvAll"), "times ConvAll; known are ConvFwd, ConvBwdFilter, "),
        (LINE.replace("ConvFwd_0", "ConvFwd_3"), "times layer 3 of a network; allowed are logs of"),
        (LINE.replace("n=64", "n=0"), "has batch size 0; allowed are whole numbers from 1 to 1"),
        (LINE.replace("n=64", "n=1.5"), "has batch size 1.5; allowed are whole numbers from 1 to"),
        (LINE.replace("n=64", "n=-8"), "holds '-8', which is no number of 0 or more"),
        ("n=64 FWD time(ms): nan", "holds 'nan', which is no number of 0 or more"),
        ("n=64 FWD time(m", "is cut off or damaged"),
        ("I0101 12:00:00.000000 1 timer.h:98] ConvFwd_0: 0.1", "is cut off or damaged"),
        ("text \0 text", "holds a character that no text can have"),
        ("x" * 200_000, "is longer than 100,000 characters"),
    ],
)
def test_damaged_lines_are_refused_with_their_number(line: str, reason: str) -> None:
    assert refusal(f"{FORWARD}{line}\n").startswith(f"line 7: {reason}")


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(LogError, match="line 1: is not UTF-8 text"):
        LogParser().feed(b"\xff\xfe\x80\n")


def test_sum_that_its_lines_do_not_make_means_lost_lines() -> None:
    lines = FORWARD.splitlines(keepends=True)

    assert refusal("".join(lines[:3] + lines[4:])) == (
        "line 5: the sum FWD of batch size 64 is 0.466 ms, "
        "the times that it stands for make 0.35 ms"
    )


def test_table_without_its_sum_is_cut_off() -> None:
    cut = FORWARD + LINE.replace("n=64", "n=128") + "\n"

    assert refusal(cut) == "line 7: no sum follows: the times of batch size 128 are cut off"


def test_what_is_confirmed_of_a_program_that_died() -> None:
    parser = LogParser()
    for line in (FORWARD + LINE.replace("n=64", "n=128")).splitlines():
        parser.feed(line.encode())

    (section,) = parser.confirmed()
    assert [batch.batch_size for batch in section.batches] == [64]


def test_more_times_than_any_run_has_are_refused() -> None:
    parser = LogParser()
    with pytest.raises(LogError, match="is one of more than 10,000 times of one batch size"):
        for _ in range(30_001):
            parser.feed(LINE.encode())


def test_text_without_times_has_no_sections() -> None:
    assert parsed("nothing here\nn=64\n") == []
    assert parsed("") == []
