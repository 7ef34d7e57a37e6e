"""The plan as the probe reads it."""

from __future__ import annotations

import json

import pytest

from benchmarking.probe.plan import (
    CPU_SAMPLING,
    CUDA_SAMPLING,
    ConvolutionWork,
    IterationWork,
    Sampling,
    StackRequest,
    build_plan,
    default_sampling,
)
from benchmarking.specs import DeviceKind, Optimizer, Pass, Precision
from benchmarking.tests.factories import DEPTHWISE_LAYER


def test_plan_holds_the_work_in_its_order() -> None:
    plan = build_plan(
        machine="aws-p3.2xlarge",
        kind=DeviceKind.CUDA,
        stack=StackRequest(precision=Precision.AMP),
        work=[
            IterationWork("inception_v3", 299, True, 16, Optimizer.ADAMW, round=2),
            ConvolutionWork(DEPTHWISE_LAYER, 8, (Pass.FORWARD, Pass.BACKWARD_FILTER)),
        ],
        time_budget_seconds=60.0,
    )

    assert json.loads(json.dumps(plan)) == plan
    assert plan["schema"] == 1
    assert plan["device"] == "cuda"
    assert plan["cpu_affinity"] is None
    assert plan["stack"] == {
        "precision": "amp",
        "memory_format": "contiguous",
        "cudnn_benchmark": False,
        "threads": 1,
        "engine": "torch",
    }
    assert "dnnmark" not in plan
    assert plan["work"][0] == {
        "kind": "iteration",
        "architecture": "inception_v3",
        "image_size": 299,
        "auxiliary_heads": True,
        "optimizer": "adamw",
        "batch_size": 16,
        "round": 2,
    }
    assert plan["work"][1]["layer"]["groups"] == 16
    assert plan["work"][1]["passes"] == ["forward", "backward_filter"]


def test_gpu_is_timed_ten_times_after_three_calls() -> None:
    sampling = default_sampling(DeviceKind.CUDA)

    assert sampling is CUDA_SAMPLING
    assert (sampling.convolution.warmup, sampling.convolution.repeats) == (3, 10)
    assert (sampling.iteration.warmup, sampling.iteration.repeats) == (3, 10)


def test_cpu_is_timed_less_often() -> None:
    assert default_sampling(DeviceKind.CPU) is CPU_SAMPLING
    assert CPU_SAMPLING.iteration.repeats == 2


@pytest.mark.parametrize(
    ("run_seconds", "expected_seconds"),
    [
        (0.001, 0.013),
        (0.003, 0.018),
        (0.1, 0.3),
        (20.0, 50.0),
    ],
)
def test_expected_time_of_a_timing(run_seconds: float, expected_seconds: float) -> None:
    sampling = Sampling(1, 2, 12, minimum_ms=15.0, item_seconds=30.0)

    assert sampling.expected_seconds(run_seconds) == pytest.approx(expected_seconds)
