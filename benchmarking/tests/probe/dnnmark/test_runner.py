"""The program for DNNMark in a process of its own, with the stub in the place of DNNMark."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarking.probe.dnnmark.program import dnnmark_program
from benchmarking.probe.plan import (
    ConvolutionWork,
    IterationWork,
    Sampling,
    SamplingPair,
    StackRequest,
    Work,
    build_plan,
)
from benchmarking.probe.results import (
    ConvolutionLine,
    DoneLine,
    EnvironmentLine,
    ErrorLine,
    FailureKind,
    ResultLine,
    StoppedBy,
    parse_results,
)
from benchmarking.specs import ConvolutionSpec, DeviceKind, Engine, Pass, Precision, StackSpec
from benchmarking.tests.factories import DEPTHWISE_LAYER
from benchmarking.tests.probe.dnnmark_stub import build_tree, layer_ms

FIRST = ConvolutionSpec(3, 32, 32, 8, 3, 3, 1, 1, 1, 1, bias=True)
OBLONG = ConvolutionSpec(8, 16, 12, 8, 1, 7, 1, 2, 0, 3)
ALL = (Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_FILTER)
WITHOUT_DATA = (Pass.FORWARD, Pass.BACKWARD_FILTER)
QUICK = SamplingPair(Sampling(1, 4, 4, 0.0, 30.0), Sampling(1, 2, 2, 0.0, 30.0))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "DNNMark")


def plan_of(root: Path, *work: Work, budget_seconds: float = 120.0, **changes: Any) -> dict:
    plan = build_plan(
        machine="aws-g4dn.xlarge",
        kind=DeviceKind.CUDA,
        stack=StackRequest(engine=Engine.DNNMARK),
        work=work,
        time_budget_seconds=budget_seconds,
        sampling=QUICK,
        dnnmark_root=str(root),
    )
    return {**plan, **changes}


def start(root: Path, behaviour: str = "", program: bytes = b"") -> subprocess.Popen:
    folder = root.parent / "job"
    folder.mkdir(exist_ok=True)
    (folder / "probe.py").write_bytes(program or dnnmark_program())
    path = f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        [sys.executable, "probe.py"],
        cwd=folder,
        env={**os.environ, "PATH": path, "DNNMARK_STUB": behaviour},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def run(
    plan: dict[str, Any], root: Path, behaviour: str = "", program: bytes = b""
) -> list[ResultLine]:
    with start(root, behaviour, program) as process:
        output, errors = process.communicate(json.dumps(plan).encode(), timeout=60)
    assert (process.returncode, errors) == (0, b"")
    return list(parse_results(output.splitlines(keepends=True)))


def refusal(plan: dict[str, Any], root: Path) -> str:
    with start(root) as process:
        output, errors = process.communicate(json.dumps(plan).encode(), timeout=60)
    assert (process.returncode, output) == (2, b"")
    (line,) = errors.decode().splitlines()
    return line


def works(
    layer: ConvolutionSpec, *sizes: int, passes: tuple[Pass, ...] = ALL
) -> list[ConvolutionWork]:
    return [ConvolutionWork(layer, size, passes) for size in sizes]


def samples_of(line: ResultLine) -> dict[Pass, tuple[float, ...]]:
    assert isinstance(line, ConvolutionLine)
    return line.samples_ms


def stub_ms(layer: ConvolutionSpec, size: int, operation: str) -> float:
    shape = {"c": layer.in_channels, "h": layer.in_height, "w": layer.in_width}
    return layer_ms({name: str(value) for name, value in shape.items()}, size, operation)


def failures(lines: list[ResultLine]) -> dict[int, tuple[FailureKind, str]]:
    return {
        line.batch_size: (line.kind, line.message) for line in lines if isinstance(line, ErrorLine)
    }


def timed(lines: list[ResultLine]) -> list[int]:
    return [line.batch_size for line in lines if isinstance(line, ConvolutionLine)]


def test_lines_are_those_of_the_torch_probe(root: Path) -> None:
    plan = plan_of(root, *works(FIRST, 8, 1, passes=WITHOUT_DATA), *works(OBLONG, 4))

    environment, large, small, oblong, done = run(plan, root)

    assert isinstance(environment, EnvironmentLine)
    assert environment.machine == "aws-g4dn.xlarge"
    assert environment.gpu_name == "Tesla T4"
    assert environment.stack == StackSpec(Engine.DNNMARK, "fork", Precision.FP32)
    assert environment.record["gpu"]["state"]["driver_version"] == "470.57.02"
    assert len(environment.record["probe_sha256"]) == 64
    assert (large.layer, large.batch_size, small.batch_size) == (FIRST, 8, 1)
    assert set(large.samples_ms) == set(WITHOUT_DATA)
    assert (oblong.layer, set(oblong.samples_ms)) == (OBLONG, set(ALL))
    for operation, name in zip(
        (Pass.FORWARD, Pass.BACKWARD_FILTER, Pass.BACKWARD_DATA),
        ("ConvFwd", "ConvBwdFilter", "ConvBwdData"),
        strict=True,
    ):
        once = stub_ms(OBLONG, 4, name)
        assert samples_of(oblong)[operation] == pytest.approx((2 * once, once, once, once))
    assert isinstance(done, DoneLine)
    assert (done.completed, done.failed, done.left) == (3, 0, 0)
    assert done.stopped_by is StoppedBy.END_OF_PLAN


def test_upstream_is_run_again_for_each_sample(tmp_path: Path) -> None:
    root = build_tree(tmp_path / "DNNMark", "upstream", "Tesla V100-SXM2-16GB")

    environment, line, _ = run(plan_of(root, *works(FIRST, 8)), root)

    assert environment.stack.framework_version == "upstream"
    assert samples_of(line)[Pass.FORWARD] == pytest.approx((stub_ms(FIRST, 8, "ConvFwd"),) * 4)


def test_out_of_memory_is_a_result_and_larger_batches_are_not_tried(root: Path) -> None:
    lines = run(plan_of(root, *works(FIRST, 64, 8, 16, 32)), root, "out_of_memory:16")

    assert timed(lines) == [8]
    not_tried = (FailureKind.OUT_OF_MEMORY, "not tried: batch size 16 ran out of memory")
    assert failures(lines) == {
        16: (FailureKind.OUT_OF_MEMORY, "CUDA error: out of memory"),
        32: not_tried,
        64: not_tried,
    }
    assert (lines[-1].completed, lines[-1].failed, lines[-1].left) == (1, 3, 0)


@pytest.mark.parametrize(
    ("behaviour", "kind", "message"),
    [
        ("not_supported:8", FailureKind.UNSUPPORTED, "CUDNN Error at "),
        ("crash:8", FailureKind.FAILED, "DNNMark was killed by signal 11"),
        ("cut:8", FailureKind.FAILED, "DNNMark ended without a time"),
    ],
)
def test_failure_of_one_batch_size_leaves_the_others(
    root: Path, behaviour: str, kind: FailureKind, message: str
) -> None:
    lines = run(plan_of(root, *works(FIRST, 4, 8, 16)), root, behaviour)

    assert timed(lines) == [4, 16]
    assert failures(lines)[8][0] is kind
    assert failures(lines)[8][1].startswith(message)


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("garbage", "what DNNMark printed is wrong: line 3: is not UTF-8 text"),
        ("nan", "what DNNMark printed is wrong: line 3: holds 'nan', which is no number"),
        ("negative", "what DNNMark printed is wrong: line 3: holds '-"),
        ("wrong_sum", "what DNNMark printed is wrong: line 7: the sum FWD of batch size 8 is"),
        ("endless", "DNNMark printed without an end"),
    ],
)
def test_r12_output_that_is_wrong_is_rejected_with_a_reason_and_kept(
    root: Path, behaviour: str, message: str
) -> None:
    lines = run(plan_of(root, *works(FIRST, 8)), root, behaviour)

    kind, reason = failures(lines)[8]
    assert (kind, reason[: len(message)]) == (FailureKind.FAILED, message)
    assert timed(lines) == []
    kept = (root.parent / "job" / "dnnmark.log").stat().st_size
    assert 1000 < kept < 200_000


def test_lost_device_ends_the_run(root: Path) -> None:
    lines = run(plan_of(root, *works(FIRST, 8, 16), *works(OBLONG, 8)), root, "device_lost")

    assert failures(lines) == {
        8: (FailureKind.FATAL, "CUDA error: no CUDA-capable device is detected")
    }
    assert (lines[-1].stopped_by, lines[-1].left) == (StoppedBy.FATAL_ERROR, 2)


def test_what_dnnmark_cannot_time_is_unsupported(root: Path) -> None:
    dilated = replace(FIRST, dilation_width=2)
    lines = run(
        plan_of(
            root,
            *works(DEPTHWISE_LAYER, 1),
            *works(dilated, 2),
            IterationWork("vgg16", 224, False, 4),
        ),
        root,
    )

    assert failures(lines) == {
        1: (FailureKind.UNSUPPORTED, "DNNMark times no grouped convolutions"),
        2: (FailureKind.UNSUPPORTED, "DNNMark times no dilated convolutions"),
        4: (FailureKind.UNSUPPORTED, "DNNMark times no whole iterations"),
    }


def test_signal_ends_the_run_after_the_timing_under_way(root: Path) -> None:
    plan = plan_of(root, *works(FIRST, 1), *works(OBLONG, 1), *works(FIRST, 2))
    with start(root, "slow:0.3") as process:
        process.stdin.write(json.dumps(plan).encode())
        process.stdin.close()
        lines = [process.stdout.readline() for _ in range(2)]
        os.killpg(process.pid, signal.SIGTERM)
        lines += process.stdout.readlines()
        assert process.wait(30) == 0

    records = list(parse_results(lines))
    done = records[-1]
    # The timing under way is finished, its other direction is not begun.
    assert timed(records) == [1]
    assert (done.stopped_by, done.completed, done.left) == (StoppedBy.SIGNAL, 1, 2)


def test_program_that_hangs_is_ended_when_the_budget_is_over(root: Path) -> None:
    plan = plan_of(root, *works(FIRST, 4, 8), budget_seconds=0.5)
    impatient = program_with(b"SECONDS_AFTER_BUDGET = 60.0", b"SECONDS_AFTER_BUDGET = 0.5")

    lines = run(plan, root, "hang:8", impatient)

    assert failures(lines) == {}
    assert (lines[-1].stopped_by, lines[-1].left) == (StoppedBy.TIME_BUDGET, 2)


def program_with(old: bytes, new: bytes) -> bytes:
    changed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(dnnmark_program())) as source,
        zipfile.ZipFile(changed, "w") as target,
    ):
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(old, new))
    return changed.getvalue()


def test_time_budget_leaves_the_rest(root: Path) -> None:
    lines = run(plan_of(root, *works(FIRST, 1), budget_seconds=0.0), root)

    assert (lines[-1].stopped_by, lines[-1].left) == (StoppedBy.TIME_BUDGET, 1)


def test_plans_that_cannot_be_carried_out_are_refused(root: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    plan = plan_of(root, *works(FIRST, 1))

    assert refusal({**plan, "device": "cpu"}, root) == (
        "probe: DNNMark measures GPUs, the plan asks for a CPU"
    )
    assert refusal({**plan, "stack": {**plan["stack"], "precision": "amp"}}, root) == (
        "probe: DNNMark measures in fp32 only"
    )
    assert refusal({**plan, "dnnmark": {"root": str(nowhere)}}, root).startswith(
        f"probe: no built DNNMark under {nowhere}: neither {nowhere}/build/benchmarks/"
    )
    assert refusal({**plan, "dnnmark": {"root": ""}}, root).startswith(
        "probe: the plan names no DNNMark root"
    )
    (root / "bin" / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    assert refusal(plan, root) == (
        "probe: the plan asks for a CUDA device, and nvidia-smi finds none here"
    )
    assert not (root.parent / "job" / "dnnmark.log").exists()
