"""Pooling: samples of a run's rounds together, then the median over runs."""

from __future__ import annotations

import pytest

from benchmarking.specs import Optimizer, Pass
from benchmarking.tests.factories import (
    create_architecture,
    create_cpu_machine,
    create_failed_timing,
    create_iteration_timing,
    create_layer,
    create_layer_timing,
    create_machine,
    create_run,
    create_stack,
)
from regression.timings import (
    count_timings,
    load_iterations,
    load_layer_times,
    recall_layer_times,
)

pytestmark = pytest.mark.django_db


def test_rounds_of_a_run_are_one_sample_and_runs_are_a_median() -> None:
    machine, layer = create_cpu_machine(), create_layer()
    first, second, third = (create_run(machine=machine) for _ in range(3))
    create_layer_timing(run=first, layer=layer, samples_ms=[1.0, 9.0])
    create_layer_timing(run=first, layer=layer, samples_ms=[2.0, 3.0], round=2)
    create_layer_timing(run=second, layer=layer, samples_ms=[4.0])
    create_layer_timing(run=third, layer=layer, samples_ms=[100.0])
    times = load_layer_times(device_id=machine.device_id, stack_id=first.stack_id)
    # The first run's 1, 2, 3 without its largest 9 give 2; then the median of 2, 4 and 100.
    assert times == {(layer.key, 1, Pass.FORWARD): 4.0}


def test_iterations_keep_each_runs_own_time() -> None:
    machine, architecture = create_cpu_machine(), create_architecture()
    first, second = create_run(machine=machine), create_run(machine=machine)
    create_iteration_timing(run=first, architecture=architecture, samples_ms=[10.0])
    create_iteration_timing(run=second, architecture=architecture, samples_ms=[14.0])
    create_iteration_timing(
        run=second, architecture=architecture, samples_ms=[50.0], optimizer=Optimizer.ADAMW
    )
    timings = load_iterations(machine_id=machine.pk, stack_id=first.stack_id)
    sgd = timings[architecture.pk, 1, Optimizer.SGD]
    assert sgd.milliseconds == 12.0
    assert dict(sgd.runs) == {str(first.pk): 10.0, str(second.pk): 14.0}
    assert timings[architecture.pk, 1, Optimizer.ADAMW].milliseconds == 50.0


def test_layers_serve_every_machine_of_the_device_and_iterations_their_own() -> None:
    here = create_cpu_machine()
    twin = create_machine(device=here.device)
    run = create_run(machine=twin)
    layer, architecture = create_layer(), create_architecture()
    create_layer_timing(run=run, layer=layer)
    create_iteration_timing(run=run, architecture=architecture)
    assert load_layer_times(device_id=here.device_id, stack_id=run.stack_id)
    assert load_iterations(machine_id=here.pk, stack_id=run.stack_id) == {}
    counts = count_timings(device_id=here.device_id, machine_id=here.pk, stack_id=run.stack_id)
    assert counts == (1, 0)


def test_another_stack_is_another_device_or_precision_for_all_we_know() -> None:
    machine, layer = create_cpu_machine(), create_layer()
    newer = create_stack(framework_version="2.15.0")
    create_layer_timing(run=create_run(machine=machine, stack=newer), layer=layer)
    assert load_layer_times(device_id=machine.device_id, stack_id=create_stack().pk) == {}


def test_only_an_architectures_layers_are_read_when_it_is_named() -> None:
    machine, architecture = create_cpu_machine(), create_architecture()
    run = create_run(machine=machine)
    for use in architecture.uses.select_related("layer"):
        create_layer_timing(run=run, layer=use.layer)
    from benchmarking.specs import ConvolutionSpec

    create_layer_timing(run=run, layer=create_layer(ConvolutionSpec(5, 9, 9, 7, 3, 3)))
    ids = {"device_id": machine.device_id, "stack_id": run.stack_id}
    assert len(load_layer_times(**ids)) == 4
    assert len(load_layer_times(**ids, architecture_id=architecture.pk)) == 3


def test_remembered_times_follow_new_and_deleted_runs(
    django_assert_num_queries,
) -> None:
    machine, architecture = create_cpu_machine(), create_architecture()
    run, second = create_run(machine=machine), create_run(machine=machine)
    layer = architecture.uses.select_related("layer")[0].layer
    ids = {
        "device_id": machine.device_id,
        "stack_id": run.stack_id,
        "architecture_id": architecture.pk,
    }
    key = (layer.key, 1, Pass.FORWARD)
    assert recall_layer_times(**ids) == {}
    create_layer_timing(run=run, layer=layer, samples_ms=[2.0])
    assert recall_layer_times(**ids) == {key: 2.0}
    with django_assert_num_queries(2):
        assert recall_layer_times(**ids) == {key: 2.0}
    create_layer_timing(run=second, layer=layer, samples_ms=[4.0])
    assert recall_layer_times(**ids) == {key: 3.0}
    second.delete()
    assert recall_layer_times(**ids) == {key: 2.0}


def test_failures_are_no_timings() -> None:
    machine, architecture = create_cpu_machine(), create_architecture()
    run = create_run(machine=machine)
    create_failed_timing(run=run, architecture=architecture, batch_size=8)
    assert load_iterations(machine_id=machine.pk, stack_id=run.stack_id) == {}
