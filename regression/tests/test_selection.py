"""One stack and one model answer; two are never mixed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from benchmarking.models import Machine, SoftwareStack
from benchmarking.specs import Precision
from benchmarking.tests.factories import (
    create_architecture,
    create_cpu_machine,
    create_iteration_timing,
    create_layer,
    create_layer_timing,
    create_machine,
    create_run,
    create_stack,
)
from regression.models import TrainedModel
from regression.selection import choose_model, choose_stack, trainable_pairs

pytestmark = pytest.mark.django_db


def create_model(machine: Machine, stack: SoftwareStack, **values) -> TrainedModel:
    defaults = {
        "version": "1-test",
        "features": [],
        "data_hash": "0" * 64,
        "layer_timing_count": 0,
        "iteration_timing_count": 0,
        "networks": 1,
        "points": 1,
        "coefficients": {},
        "booster": b"",
        "interval_errors": {},
    }
    return TrainedModel.objects.create(
        machine=machine, device=machine.device, stack=stack, **{**defaults, **values}
    )


def test_nothing_timed_means_no_stack() -> None:
    machine = create_cpu_machine()
    create_stack()
    assert choose_stack(device=machine.device, machine=machine, precision=Precision.FP32) is None


def test_another_precision_is_no_answer() -> None:
    machine = create_machine()
    create_run(machine=machine, stack=create_stack(precision="fp32"))
    amp = choose_stack(device=machine.device, machine=machine, precision=Precision.AMP)
    assert amp is None


def test_the_stack_of_this_machines_iterations_wins_over_a_newer_one() -> None:
    machine = create_cpu_machine()
    old, new = create_stack(framework_version="1.13"), create_stack(framework_version="2.14")
    long_ago = timezone.now() - timedelta(days=900)
    measured = create_run(machine=machine, stack=old, started_at=long_ago)
    create_iteration_timing(run=measured, architecture=create_architecture())
    create_layer_timing(run=create_run(machine=machine, stack=new), layer=create_layer())
    chosen = choose_stack(device=machine.device, machine=machine, precision=Precision.FP32)
    assert chosen == old


def test_without_iterations_the_stack_with_a_model_of_the_device_wins() -> None:
    here = create_cpu_machine()
    twin = create_machine(device=here.device)
    old, new = create_stack(framework_version="1.13"), create_stack(framework_version="2.14")
    create_run(machine=twin, stack=old, started_at=timezone.now() - timedelta(days=900))
    create_run(machine=here, stack=new)
    create_model(twin, old)
    chosen = choose_stack(device=here.device, machine=here, precision=Precision.FP32)
    assert chosen == old


def test_a_machines_own_model_comes_first_then_the_one_that_saw_most() -> None:
    here = create_cpu_machine()
    small, large = create_machine(device=here.device), create_machine(device=here.device)
    stack = create_stack()
    create_model(small, stack, networks=3)
    create_model(large, stack, networks=30)
    chosen = choose_model(device=here.device, machine=here, stack=stack)
    assert chosen is not None and chosen.machine == large
    own = create_model(here, stack, networks=1)
    assert choose_model(device=here.device, machine=here, stack=stack) == own


def test_models_of_another_stack_or_no_longer_active_do_not_answer() -> None:
    machine = create_cpu_machine()
    create_model(machine, create_stack(framework_version="1.13"))
    stack = create_stack()
    create_model(machine, stack, is_active=False)
    assert choose_model(device=machine.device, machine=machine, stack=stack) is None


def test_pairs_with_iterations() -> None:
    machine, other = create_cpu_machine(), create_cpu_machine(slug="other")
    run = create_run(machine=machine)
    create_iteration_timing(run=run, architecture=create_architecture())
    create_layer_timing(run=create_run(machine=other), layer=create_layer())
    assert trainable_pairs() == [(machine, run.stack)]
    assert trainable_pairs(other) == []
