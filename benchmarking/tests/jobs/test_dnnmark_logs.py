"""Recorded logs of DNNMark in the same tables. Formats are the recorded ones, numbers made up."""

from __future__ import annotations

import gzip
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from benchmarking.models import FailedTiming, LayerTiming, Machine, MeasurementRun
from benchmarking.specs import ConvolutionSpec, Engine, Precision, StackSpec
from benchmarking.tests.factories import create_cpu_machine, create_device, create_layer
from benchmarking.tests.factories import create_machine as create_any_machine

pytestmark = pytest.mark.django_db

LAYER = ConvolutionSpec(64, 56, 56, 128, 3, 3, 1, 1, 1, 1)
NAME = "56-56-64-128-3-1-1"
FORWARD = """Using MBS 8
n=8 Operation ConvFwd_0: GPU time 3.000000ms, CPU time 0.011000ms
n=8 Operation ConvFwd_0: GPU time 1.000000ms, CPU time 0.011000ms
n=8 Operation ConvFwd_0: GPU time 1.200000ms, CPU time 0.011000ms
n=8 Operation ConvFwd_0: GPU time 1.1e+00ms, CPU time 1.1e-02ms
n=8 FWD time(ms): 6.300000
"""
BACKWARD = """Using MBS 8
n=8 Operation ConvBwdFilter_0: GPU time 2.000000ms, CPU time 0.011000ms
n=8 Operation ConvBwdData_0: GPU time 4.000000ms, CPU time 0.011000ms
n=8 BWD time(ms): 6.000000
"""
GLOG = """I0101 12:00:00.000000 123 timer.h:98] ConvFwd_0: 0.123ms
"""
NO_SIZE = "Operation ConvFwd_0: GPU time 3.000000ms, CPU time 0.011000ms\n"
# More digits than Python turns into a number.
ENDLESS = "9" * 5_000
OUT_OF_MEMORY = """Using MBS 512
CUDA Error at /DNNMark/core/include/data_manager.h63
out of memory
"""
CONFIGURATION = """Config: ---
[DNNMark]
run_mode=standalone

[Convolution]
name=conv1
n=8,512
c=64
h=56
w=56
previous_layer=null
conv_mode=cross_correlation
num_output=128
kernel_size=3
pad=1
stride=1
algofwd=cudnnv7
algo=cudnnv7
algod=cudnnv7
-----------
"""


@pytest.fixture
def machine() -> Machine:
    device = create_device(reported_name="Tesla V100-SXM2-16GB|Tesla V100-SXM2-16GB-N*")
    return create_any_machine(slug="aws-p3.2xlarge", device=device)


def written(tmp_path: Path, text: str | bytes, name: str = "a.log") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def import_files(*paths: Path, **options: Any) -> str:
    output = io.StringIO()
    defaults = {"machine": "aws-p3.2xlarge", "layer": NAME}
    call_command("import_measurements", *map(str, paths), stdout=output, **{**defaults, **options})
    return output.getvalue().strip()


def refusal(*paths: Path, **options: Any) -> str:
    with pytest.raises(CommandError) as refused:
        import_files(*paths, **options)
    assert refused.value.returncode == 2
    assert "\n" not in str(refused.value)
    assert MeasurementRun.objects.count() == 0
    return str(refused.value)


def stored() -> dict[tuple[str, int, str], float]:
    return {
        (timing.layer.key, timing.batch_size, timing.operation): timing.milliseconds
        for timing in LayerTiming.objects.select_related("layer")
    }


def test_forward_and_backward_become_timings_of_the_machine(
    machine: Machine, tmp_path: Path
) -> None:
    paths = written(tmp_path, FORWARD, "fwd.log"), written(tmp_path, BACKWARD, "bwd.log")

    assert import_files(*paths) == (
        "aws-p3.2xlarge: 3 layer timings, 0 iteration timings and 0 failures stored from "
        "2 new runs; 0 were stored before"
    )
    # Of the forward times the largest is dropped, and the median of the others counts.
    assert stored() == {
        (LAYER.key, 8, "forward"): 1.1,
        (LAYER.key, 8, "backward_filter"): 2.0,
        (LAYER.key, 8, "backward_data"): 4.0,
    }
    assert LayerTiming.objects.get(operation="forward").samples_ms == [3.0, 1.0, 1.2, 1.1]
    for run in MeasurementRun.objects.select_related("stack"):
        assert run.machine == machine
        assert run.stack.to_spec() == StackSpec(Engine.DNNMARK, "fork", Precision.FP32)
        assert run.environment["log"]["gpu_named_by"] == "whoever imported it"


def test_same_log_again_under_any_name_adds_nothing(machine: Machine, tmp_path: Path) -> None:
    import_files(written(tmp_path, FORWARD + BACKWARD))
    compressed = written(tmp_path, gzip.compress((FORWARD + BACKWARD).encode()), "other.txt.gz")

    assert import_files(compressed) == (
        "aws-p3.2xlarge: 0 layer timings, 0 iteration timings and 0 failures stored from "
        "0 new runs; 3 were stored before"
    )


def test_log_that_says_everything_needs_no_options(machine: Machine, tmp_path: Path) -> None:
    text = (
        "# machine: aws-p3.2xlarge\n"
        "NVDRV:470.57.02,CUDA:11.3.1,cuDNN:8.2.1\n"
        "GPU0: Tesla V100-SXM2-16GB, 16160 MiB, 16157 MiB, P0, 33, 877 MHz, 1530 MHz, 0x0\n"
        + CONFIGURATION
        + FORWARD
        + OUT_OF_MEMORY
        + f"# layer: {NAME}\n"
        + BACKWARD
    )

    import_files(written(tmp_path, text), machine=None, layer=None)

    run = MeasurementRun.objects.select_related("stack").get()
    assert run.stack.to_spec() == StackSpec(Engine.DNNMARK, "fork", Precision.FP32, "11.3", "8201")
    assert run.environment["gpu"] == {"name": "Tesla V100-SXM2-16GB", "driver": "470.57.02"}
    assert len(stored()) == 3
    failure = FailedTiming.objects.select_related("layer").get()
    assert (failure.layer.key, failure.batch_size) == (LAYER.key, 512)
    assert (failure.kind, failure.message) == ("out_of_memory", "CUDA error: out of memory")


@pytest.mark.parametrize(
    "name",
    [
        f"dnnmark_host_convaloneconfig_testfwdconvmultibs_shape{NAME}-1_algospytorch_00.log",
        f"shape{NAME}.txt",
    ],
)
def test_layer_may_be_in_the_name_of_the_file(machine: Machine, tmp_path: Path, name: str) -> None:
    import_files(written(tmp_path, FORWARD, name), layer=None)

    assert stored() == {(LAYER.key, 8, "forward"): 1.1}


def test_failure_takes_the_first_listed_batch_size_without_a_time(
    machine: Machine, tmp_path: Path
) -> None:
    text = (CONFIGURATION + FORWARD + OUT_OF_MEMORY).replace("Using MBS 8\n", "")

    import_files(written(tmp_path, text.replace("Using MBS 512\n", "")), layer=None)

    assert FailedTiming.objects.get().batch_size == 512


def test_upstream_log_of_one_batch_size(machine: Machine, tmp_path: Path) -> None:
    import_files(written(tmp_path, GLOG), batch_size=16)

    assert stored() == {(LAYER.key, 16, "forward"): 0.123}
    assert MeasurementRun.objects.get().stack.framework_version == "upstream"


def test_log_serves_every_layer_of_its_shape(machine: Machine, tmp_path: Path) -> None:
    # DNNMark computes no bias: the known networks have this layer with one, and without.
    biased = replace(LAYER, bias=True)
    create_layer(biased)
    import_files(written(tmp_path, FORWARD))
    assert stored() == {(biased.key, 8, "forward"): 1.1}

    create_layer(LAYER)
    assert "1 layer timings" in import_files(written(tmp_path, FORWARD))
    assert stored() == {(biased.key, 8, "forward"): 1.1, (LAYER.key, 8, "forward"): 1.1}


def test_cudnn_computes_in_tf32_unasked_where_it_can(tmp_path: Path) -> None:
    device = create_device(
        reported_name="NVIDIA A10G", compute_capability=8.6, tf32_tflops=70.0, name="A10G"
    )
    create_any_machine(slug="aws-g5.xlarge", device=device)

    import_files(written(tmp_path, FORWARD), machine="aws-g5.xlarge")

    assert MeasurementRun.objects.get().stack.precision == "tf32"


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        (FORWARD, {"layer": None}, "line 1: nothing says which layer is timed; say --layer H-W"),
        (FORWARD, {"machine": None}, "the log names no machine; say which with --machine"),
        (GLOG, {}, "line 1: nothing says which batch size is timed; say --batch-size N"),
        (
            OUT_OF_MEMORY.replace("Using MBS 512\n", ""),
            {},
            "line 1: nothing says at which batch size this failed (CUDA error: out of memory); ",
        ),
        (
            f"# layer: 7-7-64-128-3-1-1\n{FORWARD}",
            {},
            "line 1: is of layer 64x7x7-128k3x3s1x1p1x1d1x1g1, and not of 64x56x56-128k3x3s1x1p1",
        ),
        (
            f"# layer: {NAME}-2\n{FORWARD}",
            {"layer": None},
            "line 1: DNNMark cannot have timed layer 64x56x56-128k3x3s1x1p1x1d2x2g1",
        ),
        (f"# layer: large\n{FORWARD}", {"layer": None}, "line 1: 'large' is no layer; allowed is"),
        (f"# layer: {{}}\n{FORWARD}", {"layer": None}, "line 1: in_channels is None; allowed are"),
        (f"# layer: {{\n{FORWARD}", {"layer": None}, "line 1: '{' is no layer; allowed is"),
        (
            CONFIGURATION.replace("pad=1", "pad=same") + FORWARD,
            {"layer": None},
            "line 1: the configuration has 'same' for its padding_height",
        ),
        (f"# round: 0\n{FORWARD}", {}, "line 1: has round '0'"),
        (f"# round: {ENDLESS}\n{FORWARD}", {}, "line 1: has round '9999"),
        (f"# batch_sizes: 0\n{NO_SIZE}", {}, "line 1: lists batch size '0'; allowed are whole"),
        (f"# batch_sizes: 8,{ENDLESS}\n{NO_SIZE}", {}, "line 1: lists batch size '9999"),
        (f"n=8,{ENDLESS}\n{NO_SIZE}", {}, "line 1: lists batch size '9999"),
        (
            OUT_OF_MEMORY.replace("Using MBS 512", "# batch_sizes: 0"),
            {},
            "line 1: lists batch size '0'; allowed are whole numbers from 1 to 1000000",
        ),
        (NO_SIZE.replace("_0:", f"_{ENDLESS}:"), {}, "line 1: times layer 999999999 of a network"),
        (GLOG.replace("_0:", f"_{ENDLESS}:"), {}, "line 1: times layer 999999999 of a network"),
        (f"# environment: {{}}\n{FORWARD}", {}, "line 1: its environment is wrong: has type None"),
        (
            "GPU0: NVIDIA A100-SXM4-40GB, 40536 MiB, 1 MiB, P0\n" + FORWARD,
            {},
            "aws-p3.2xlarge has a ",
        ),
        (FORWARD[:-12], {}, "line 6: is cut off or damaged"),
        (FORWARD.rsplit("n=8 FWD", 1)[0][:-9], {}, "line 5: is cut off or damaged"),
        (FORWARD.replace("1.200000", "nan"), {}, "line 4: holds 'nan', which is no number of 0"),
        (FORWARD.replace("1.200000", "-1.2"), {}, "line 4: holds '-1.2', which is no number of 0"),
        (FORWARD.replace("1.2000", "1.3000"), {}, "line 6: the sum FWD of batch size 8 is 6.3 ms"),
        (b"\xff\xfe\x80\n" + FORWARD.encode(), {}, "line 1: is not UTF-8 text"),
        (b"\0\n" + FORWARD.encode(), {}, "line 1: holds a character that no text can have"),
        (b"x" * 2_000_000, {}, "line 1: is longer than 100,000 characters"),
        ("", {}, "line 1: the file holds no times of DNNMark; allowed are its logs, and files of"),
        ("nothing\n", {}, "line 1: the file holds no times of DNNMark; allowed are its logs"),
    ],
)
def test_r12_wrong_log_gets_one_line_and_nothing_is_stored(
    machine: Machine, tmp_path: Path, text: str | bytes, options: dict[str, Any], reason: str
) -> None:
    path = written(tmp_path, text)

    assert refusal(path, **options).startswith(f"{path}: {reason}")
    assert path.exists()


def test_r12_numbers_that_cannot_be_in_names_and_headings_are_none(
    machine: Machine, tmp_path: Path
) -> None:
    unsized = written(tmp_path, NO_SIZE, "a_bs0_.log")
    assert refusal(unsized).startswith(f"{unsized}: line 1: nothing says which batch size is timed")

    import_files(written(tmp_path, f"# cudnn: 8.{ENDLESS}.1\n{FORWARD}"))
    assert MeasurementRun.objects.get().stack.cudnn_version == ""


def test_log_of_an_editor_that_marks_its_files_is_read_from_its_first_line(
    machine: Machine, tmp_path: Path
) -> None:
    import_files(written(tmp_path, FORWARD.partition("\n")[2].encode("utf-8-sig")))

    assert stored() == {(LAYER.key, 8, "forward"): 1.1}


def test_name_of_a_file_that_is_no_text_is_stored_without_what_no_column_holds(
    machine: Machine, tmp_path: Path
) -> None:
    import_files(written(tmp_path, FORWARD, "a\udcff.log"))

    assert MeasurementRun.objects.get().environment["log"]["file"] == "a.log"


def test_wrong_options_get_one_line(machine: Machine, tmp_path: Path) -> None:
    create_cpu_machine(slug="local")
    path = written(tmp_path, FORWARD)

    assert refusal(path, layer="224-224") == (
        "'224-224' is no layer; allowed is H-W-C-K-S-P-U, such as 224-224-3-64-3-1-1"
    )
    assert refusal(path, layer="2-2-3-64-3-0-1").endswith("its kernel does not fit its input")
    assert refusal(path, batch_size=0) == "--batch-size is from 1 to 1000000."
    assert refusal(path, machine="local") == (
        f"{path}: DNNMark measures GPUs; local is measured on its CPU"
    )
    assert refusal(path, machine="aws-p3.2xlarg").startswith("unknown machine 'aws-p3.2xlarg' (did")
    oblong = written(tmp_path, FORWARD, "shape56-28-64-128-3-1-1.log")
    assert refusal(oblong, layer=None) == (
        f"{oblong}: line 1: height and width in the file name differ; say --layer H-W-C-K-S-P-U"
    )


def test_log_of_one_machine_is_not_taken_for_another(machine: Machine, tmp_path: Path) -> None:
    path = written(tmp_path, FORWARD)
    twin = create_any_machine(slug="aws-p3.8xlarge", device=machine.device)
    import_files(path)

    with pytest.raises(CommandError, match="it cannot be one of aws-p3"):
        import_files(path, machine=twin.slug)


def test_endless_log_is_refused_before_it_is_read_to_its_end(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarking.jobs.results_files.MAXIMUM_LOG_BYTES", 2**20)
    path = written(tmp_path, gzip.compress(b"n=8\n" * 2**20), "a.log.gz")

    assert refusal(path) == f"{path}: cannot be read: holds more than 1 MiB"
