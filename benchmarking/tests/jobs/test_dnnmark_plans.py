"""Plans for DNNMark: which layers it can time, and whose timings count as done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarking.jobs.planner import MeasurementPlan, plan_measurements
from benchmarking.models import Architecture, Machine
from benchmarking.specs import ConvolutionUse
from benchmarking.tests.factories import (
    DEPTHWISE_LAYER,
    FIRST_LAYER,
    MIDDLE_LAYER,
    create_architecture,
    create_failed_timing,
    create_layer,
    create_machine,
    create_run,
    create_stack,
    create_timings,
)
from benchmarking.tests.jobs.test_planner import (
    ALL_PASSES,
    ONCE,
    WITHOUT_DATA,
    RoundEstimates,
    described,
    plan,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def gpu() -> Machine:
    return create_machine(slug="aws-p3.2xlarge", dnnmark_root="/opt/DNNMark")


def dnnmark_plan(gpu: Machine, *architectures: Architecture, **options: Any) -> MeasurementPlan:
    stack = create_stack(engine="dnnmark", framework_version="fork")
    return plan_measurements(
        machine=gpu,
        stack=stack.to_spec(),
        architectures=architectures,
        batch_sizes=(1, 8),
        **{"estimates": RoundEstimates(), "sampling": ONCE, **options},
    )


def test_only_layers_that_it_can_time_are_planned(gpu: Machine) -> None:
    found = dnnmark_plan(gpu, create_architecture(slug="tiny"))

    assert described(found) == [
        (1, FIRST_LAYER, 1, *WITHOUT_DATA),
        (1, FIRST_LAYER, 8, *WITHOUT_DATA),
        (1, MIDDLE_LAYER, 1, *ALL_PASSES),
        (1, MIDDLE_LAYER, 8, *ALL_PASSES),
    ]
    assert found.left_out == (
        "DNNMark times layers and no whole iterations; use the torch engine for those.",
        "1 layer of tiny is grouped or dilated: DNNMark cannot time it; use the torch engine.",
    )


def test_dilated_layers_are_refused_as_well(gpu: Machine) -> None:
    dilated = replace(MIDDLE_LAYER, dilation_width=2)
    uses = [ConvolutionUse(layer, 1) for layer in (MIDDLE_LAYER, dilated, DEPTHWISE_LAYER)]

    found = dnnmark_plan(gpu, create_architecture(slug="holes", uses=uses))

    assert {item.layer for item in found.work} == {MIDDLE_LAYER}
    assert found.left_out[1] == (
        "2 layers of holes are grouped or dilated: DNNMark cannot time them; use the torch engine."
    )


def test_many_networks_are_refused_in_one_sentence(gpu: Machine) -> None:
    found = dnnmark_plan(gpu, *(create_architecture() for _ in range(6)))

    assert found.left_out[1:] == (
        "1 layer of 6 networks is grouped or dilated: DNNMark cannot time it; "
        "use the torch engine.",
    )


def test_each_layer_costs_two_starts_of_the_program(gpu: Machine) -> None:
    found = dnnmark_plan(gpu, create_architecture())

    # Ten passes of a second, four pieces of work, two layers.
    assert found.expected_seconds == pytest.approx(10.0 + 4 * 0.05 + 2 * 8.0)


def test_timings_of_the_other_engine_do_not_count(gpu: Machine) -> None:
    tiny = create_architecture()
    create_timings(run=create_run(machine=gpu), architecture=tiny, batch_sizes=(1, 8))
    assert dnnmark_plan(gpu, tiny).timing_count == 10
    assert plan(gpu, [tiny], [1, 8]).timing_count == 0

    stack = create_stack(engine="dnnmark", framework_version="fork")
    other = create_machine(slug="aws-p3.8xlarge", device=gpu.device)
    create_timings(
        run=create_run(machine=other, stack=stack), architecture=tiny, batch_sizes=(1, 8)
    )
    assert dnnmark_plan(gpu, tiny).timing_count == 0


def test_what_ran_out_of_memory_is_not_tried_again(gpu: Machine) -> None:
    stack = create_stack(engine="dnnmark", framework_version="fork")
    run = create_run(machine=gpu, stack=stack)
    create_failed_timing(run=run, layer=create_layer(MIDDLE_LAYER), batch_size=4)

    found = dnnmark_plan(gpu, create_architecture())

    assert (1, MIDDLE_LAYER, 8, *ALL_PASSES) not in described(found)
    assert (1, MIDDLE_LAYER, 1, *ALL_PASSES) in described(found)
