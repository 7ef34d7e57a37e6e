"""The planner below is offered what was learnt."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarking.estimates import RooflineEstimates, current_estimates
from benchmarking.specs import DeviceKind, DeviceSpec, Optimizer, Precision
from regression.memory import MemoryModel
from regression.planning import LearntEstimates
from regression.specification import shipped_estimator
from regression.tests.synthetic import make_network

NETWORK = make_network("planned", seed=5)
GPU = DeviceSpec("t4", DeviceKind.CUDA, 15000.0, 8.1, 320.0, 40, 1590.0, 7.5)
CPU = DeviceSpec("cpu", DeviceKind.CPU, 8000.0, None, None)


def test_it_is_registered_when_django_starts() -> None:
    assert isinstance(current_estimates(), LearntEstimates)


def test_a_gpus_iterations_come_from_the_estimator() -> None:
    expected = shipped_estimator().estimate(NETWORK, GPU, [16, 2], Precision.FP32).iteration_ms
    assert LearntEstimates().iteration_seconds(NETWORK, [16, 2], GPU) == pytest.approx(
        expected / 1e3
    )
    assert LearntEstimates().iteration_seconds(NETWORK, [], GPU) == []


@pytest.mark.parametrize(
    ("device", "batch_size"),
    [(CPU, 16), (dataclasses.replace(GPU, fp32_tflops=None), 16), (GPU, 4096)],
)
def test_what_the_estimator_does_not_cover_keeps_the_roofline(
    device: DeviceSpec, batch_size: int
) -> None:
    roofline = RooflineEstimates().iteration_seconds(NETWORK, [batch_size], device)
    assert LearntEstimates().iteration_seconds(NETWORK, [batch_size], device) == roofline


def test_batch_sizes_beyond_the_estimator_leave_the_others_learnt() -> None:
    learnt, roofline, again = LearntEstimates().iteration_seconds(NETWORK, [16, 4096, 16], GPU)
    assert LearntEstimates().iteration_seconds(NETWORK, [16], GPU) == pytest.approx([learnt])
    assert [roofline] == RooflineEstimates().iteration_seconds(NETWORK, [4096], GPU)
    assert again == learnt


def test_memory_is_judged_as_in_forecasts() -> None:
    expected = MemoryModel().largest_batch_that_fits(NETWORK, Optimizer.SGD, Precision.FP32, GPU)
    assert LearntEstimates().largest_batch(NETWORK, GPU) == expected
    unknown = dataclasses.replace(GPU, usable_memory_mib=None)
    assert LearntEstimates().largest_batch(NETWORK, unknown) is None
