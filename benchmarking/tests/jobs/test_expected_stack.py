"""Which software stack a plan is made for on a machine that nobody has looked at today."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from benchmarking.jobs.expected_stack import expected_stack
from benchmarking.jobs.planner import plan_measurements
from benchmarking.models import Machine
from benchmarking.probe.plan import StackRequest
from benchmarking.specs import Engine, Precision, StackSpec
from benchmarking.tests.factories import (
    create_architecture,
    create_machine,
    create_run,
    create_stack,
    create_timings,
)

pytestmark = pytest.mark.django_db

REQUEST = StackRequest(precision=Precision.FP32)


@pytest.fixture
def machine() -> Machine:
    return create_machine()


def run_days_ago(machine: Machine, days: int, **stack: object) -> StackSpec:
    row = create_stack(cuda_version="12.6", **stack)
    create_run(machine=machine, stack=row, started_at=timezone.now() - timedelta(days=days))
    return row.to_spec()


def test_the_newest_stack_of_the_machine_itself_comes_first(machine: Machine) -> None:
    run_days_ago(machine, 9, framework_version="2.1.0")
    own = run_days_ago(machine, 5, framework_version="2.2.0")
    run_days_ago(create_machine(device=machine.device), 1, framework_version="2.3.0")

    assert expected_stack(machine, REQUEST) == own


def test_else_that_of_another_machine_with_the_same_device(machine: Machine) -> None:
    other = run_days_ago(create_machine(device=machine.device), 3, framework_version="2.3.0")
    run_days_ago(create_machine(), 1, framework_version="2.4.0")

    assert expected_stack(machine, REQUEST) == other


@pytest.mark.parametrize(
    "values", [{"precision": "amp"}, {"engine": "dnnmark"}, {"cudnn_benchmark": True}]
)
def test_a_stack_that_is_not_asked_for_does_not_count(
    machine: Machine, values: dict[str, object]
) -> None:
    run_days_ago(machine, 1, **values)

    assert expected_stack(machine, REQUEST) == StackSpec(Engine.TORCH, "", Precision.FP32)


def test_with_an_unknown_stack_nothing_counts_as_measured(machine: Machine) -> None:
    architecture = create_architecture()
    run = create_run(machine=machine, stack=create_stack(precision="amp"))
    create_timings(run=run, architecture=architecture, batch_sizes=[1])

    stack = expected_stack(machine, REQUEST)
    plan = plan_measurements(
        machine=machine, stack=stack, architectures=[architecture], batch_sizes=[1]
    )

    assert stack.label == "torch of unknown version · fp32"
    assert (plan.timing_count, plan.already_measured) == (9, 0)
