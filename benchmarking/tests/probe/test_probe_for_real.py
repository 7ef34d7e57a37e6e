"""The probe as it runs on a measured machine: its own process, real torch, this CPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from benchmarking.probe import PROBE_PATH
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
    IterationLine,
    ResultLine,
    StoppedBy,
    parse_results,
)
from benchmarking.specs import ConvolutionSpec, DeviceKind, Optimizer, Pass
from benchmarking.tests.factories import DEPTHWISE_LAYER, FIRST_LAYER

pytestmark = pytest.mark.torch

QUICK = SamplingPair(Sampling(1, 2, 2, 0.0, 30.0), Sampling(1, 2, 2, 0.0, 30.0))
# Its input alone is larger than any memory, so asking for it fails before a byte is touched.
TERABYTES = ConvolutionSpec(1024, 64, 64, 8, 1, 1)
DILATED = ConvolutionSpec(
    6, 20, 15, 4, 3, 5, 1, 2, 2, 3, dilation_height=2, dilation_width=1, groups=2, bias=True
)


def plan_of(*work: Work, budget_seconds: float = 120.0, **changes: Any) -> dict[str, Any]:
    plan = build_plan(
        machine="local",
        kind=DeviceKind.CPU,
        stack=StackRequest(),
        work=work,
        time_budget_seconds=budget_seconds,
        sampling=QUICK,
    )
    return {**plan, **changes}


def run_probe(plan: dict[str, Any]) -> list[ResultLine]:
    result = subprocess.run(
        [sys.executable, str(PROBE_PATH)],
        input=json.dumps(plan).encode(),
        capture_output=True,
        check=True,
    )
    return list(parse_results(result.stdout.splitlines(keepends=True)))


def test_layers_of_every_shape_are_timed_pass_by_pass() -> None:
    passes = tuple(Pass)
    core = max(os.sched_getaffinity(0))
    environment, first, depthwise, dilated, done = run_probe(
        plan_of(
            ConvolutionWork(FIRST_LAYER, 2, (Pass.FORWARD, Pass.BACKWARD_FILTER)),
            ConvolutionWork(DEPTHWISE_LAYER, 1, passes),
            ConvolutionWork(DILATED, 3, passes, round=2),
            cpu_affinity=[core],
        )
    )

    assert isinstance(environment, EnvironmentLine)
    assert environment.stack.threads == 1
    assert core in environment.record["cpu"]["affinity"]
    assert len(environment.record["probe_sha256"]) == 64
    assert isinstance(first, ConvolutionLine)
    assert set(first.samples_ms) == {Pass.FORWARD, Pass.BACKWARD_FILTER}
    assert isinstance(depthwise, ConvolutionLine)
    assert set(depthwise.samples_ms) == set(Pass)
    assert isinstance(dilated, ConvolutionLine)
    assert (dilated.layer, dilated.batch_size, dilated.round) == (DILATED, 3, 2)
    assert all(len(samples) == 2 for samples in dilated.samples_ms.values())
    assert isinstance(done, DoneLine)
    assert (done.completed, done.failed, done.left) == (3, 0, 0)
    assert done.stopped_by is StoppedBy.END_OF_PLAN


def test_iterations_are_timed_and_impossible_ones_are_told_apart() -> None:
    lines = run_probe(
        plan_of(
            IterationWork("squeezenet1_1", 64, False, 1),
            IterationWork("mobilenet_v2", 32, False, 1),
            IterationWork("no_such_network", 64, False, 1),
            IterationWork("squeezenet1_1", 64, False, 2, Optimizer.ADAMW),
            ConvolutionWork(TERABYTES, 10**6, (Pass.FORWARD,)),
            ConvolutionWork(FIRST_LAYER, 1, (Pass.FORWARD,)),
        )
    )

    _, first, untrainable, unknown, second, too_large, layer, done = lines
    assert isinstance(first, IterationLine)
    assert (first.batch_size, len(first.samples_ms)) == (1, 2)
    assert first.peak_memory_bytes is None
    assert isinstance(untrainable, ErrorLine)
    assert untrainable.kind is FailureKind.UNTRAINABLE
    assert isinstance(unknown, ErrorLine)
    assert unknown.kind is FailureKind.UNSUPPORTED
    assert isinstance(second, IterationLine)
    assert second.optimizer is Optimizer.ADAMW
    assert isinstance(too_large, ErrorLine)
    assert too_large.kind is FailureKind.OUT_OF_MEMORY
    assert isinstance(layer, ConvolutionLine)
    assert isinstance(done, DoneLine)
    assert (done.completed, done.failed) == (3, 3)


def test_nothing_is_begun_once_the_time_is_over() -> None:
    work = [ConvolutionWork(FIRST_LAYER, size + 1, (Pass.FORWARD,)) for size in range(3)]

    *_, done = run_probe(plan_of(*work, budget_seconds=0.0))

    assert isinstance(done, DoneLine)
    assert (done.completed, done.left) == (0, 3)
    assert done.stopped_by is StoppedBy.TIME_BUDGET


def test_signal_ends_the_run_with_every_line_whole() -> None:
    work = [ConvolutionWork(FIRST_LAYER, 1, (Pass.FORWARD,), number + 1) for number in range(9999)]
    process = subprocess.Popen(
        [sys.executable, str(PROBE_PATH)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(plan_of(*work)).encode())
    process.stdin.close()
    lines = [process.stdout.readline() for _ in range(3)]
    process.send_signal(signal.SIGTERM)
    lines += process.stdout.readlines()

    assert process.wait() == 0
    *_, done = parse_results(lines)
    assert isinstance(done, DoneLine)
    assert done.stopped_by is StoppedBy.SIGNAL
    assert done.completed == len(lines) - 2
    assert done.left == 9999 - done.completed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": "cuda"}, "probe: the plan asks for a CUDA device, and torch finds none here"),
        ({"schema": 9}, "probe: this probe reads plans of schema 1"),
        (
            {"stack": {**plan_of()["stack"], "precision": "amp"}},
            "probe: a CPU is measured in fp32 only",
        ),
    ],
)
def test_plan_that_cannot_be_carried_out_gets_one_line(
    change: dict[str, Any], message: str
) -> None:
    result = subprocess.run(
        [sys.executable, str(PROBE_PATH)],
        input=json.dumps(plan_of(**change)),
        capture_output=True,
        text=True,
        check=False,
        # A GPU in the machine that runs the tests must not help.
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.strip() == message
