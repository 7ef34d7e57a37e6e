"""What was timed where: layers by device, iterations by machine."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from benchmarking.models import Architecture
from benchmarking.tests.factories import (
    create_architecture,
    create_iteration_timing,
    create_layer,
    create_layer_timing,
    create_machine,
    create_run,
    create_stack,
)
from predictions.display import EN_DASH
from predictions.measured import (
    iterations_measured_of,
    iterations_measured_on,
    layers_measured_on,
)

pytestmark = pytest.mark.django_db


def test_layers_count_for_every_machine_with_the_device():
    machine = create_machine()
    twin = create_machine(device=machine.device)
    run = create_run(machine=machine, started_at=datetime(2026, 5, 4, tzinfo=UTC))
    layer = create_layer()
    for size in (2, 8):
        create_layer_timing(run=run, layer=layer, batch_size=size)
    (line,) = layers_measured_on(twin)
    assert (line.layers, line.timings, line.batch_sizes) == (1, 2, f"2 {EN_DASH} 8")
    assert line.last_day == date(2026, 5, 4)
    assert line.stack == str(run.stack)
    assert layers_measured_on(create_machine()) == []


def test_each_software_stack_has_its_own_line():
    machine, network = create_machine(), create_architecture(slug="net", image_size=32)
    for version, sizes in (("2.1", (1,)), ("2.2", (1, 4))):
        run = create_run(machine=machine, stack=create_stack(framework_version=version))
        for size in sizes:
            create_iteration_timing(run=run, architecture=network, batch_size=size)
    found = {
        line.stack.split(" · ")[0]: line.batch_sizes for line in iterations_measured_on(machine)
    }
    assert found == {"torch 2.1": "1", "torch 2.2": f"1 {EN_DASH} 4"}
    assert [line.machine for line in iterations_measured_of(network)] == [machine.slug] * 2


def test_a_line_leads_to_its_forecast():
    network = create_architecture(slug="net", image_size=32)
    run = create_run(machine=create_machine(slug="aws-t.1"))
    create_iteration_timing(run=run, architecture=network, batch_size=1)
    (line,) = iterations_measured_of(network)
    assert line.forecast_path == "/?architecture=net&machine=aws-t.1&image_size=32"


def test_networks_that_people_brought_are_named_to_nobody():
    private = create_architecture(slug="own-secret", source=Architecture.UPLOADED)
    machine = create_machine()
    create_iteration_timing(run=create_run(machine=machine), architecture=private, batch_size=1)
    assert iterations_measured_on(machine) == []
