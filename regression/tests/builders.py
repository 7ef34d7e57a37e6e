"""Stored networks and timings of the synthetic device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from benchmarking.models import Architecture, LayerTiming, Machine, MeasurementRun
from benchmarking.specs import Pass, TracedNetwork
from benchmarking.tests.factories import (
    create_architecture,
    create_cpu_machine,
    create_iteration_timing,
    create_layer,
    create_run,
)
from regression.convolution import complete_sums
from regression.device_layers import fit_device_layers
from regression.evaluation import Evaluation, evaluate
from regression.features import feature_table
from regression.models import TrainedModel
from regression.remainder import IterationModel
from regression.tests.synthetic import (
    BATCH_SIZES,
    make_layer_times,
    make_networks,
    make_training_set,
    true_device_ms,
)
from regression.timings import count_timings
from regression.trained import FittedModel
from regression.training import store_model


def store_network(network: TracedNetwork) -> Architecture:
    """An architecture that turns into ``network`` again."""
    return create_architecture(
        uses=network.convolutions,
        slug=network.slug,
        family=network.family,
        image_size=network.image_size,
        parameters=network.parameters,
        parameter_tensors=network.parameter_tensors,
        multiply_adds=network.multiply_adds,
        saved_bytes_per_example=network.saved_bytes_per_example,
        saved_bytes_fixed=network.saved_bytes_fixed,
        operations=[
            [
                operation.name,
                operation.phase.value,
                operation.calls,
                operation.bytes_per_example,
                operation.bytes_fixed,
                operation.multiply_adds_per_example,
            ]
            for operation in network.operations
        ],
    )


def store_layer_timings(
    run: MeasurementRun, network: TracedNetwork, batch_sizes: Sequence[int] = BATCH_SIZES
) -> None:
    """Every pass of every layer of a network at the synthetic device's rate."""
    times = make_layer_times([network], batch_sizes)
    layers = {use.layer.key: create_layer(use.layer) for use in network.convolutions}
    LayerTiming.objects.bulk_create(
        (
            LayerTiming(
                run=run,
                layer=layers[key],
                batch_size=size,
                operation=Pass(operation).value,
                samples_ms=[milliseconds],
                milliseconds=milliseconds,
            )
            for (key, size, operation), milliseconds in times.items()
        ),
        ignore_conflicts=True,
    )


def true_ms(network: TracedNetwork, batch_sizes: Sequence[int]) -> list[float]:
    """What the iterations of a network take on the synthetic device."""
    sums = complete_sums(network, batch_sizes, make_layer_times([network], batch_sizes))
    return [float(ms) for ms in true_device_ms(feature_table(network, sums))]


def measure_network(
    run: MeasurementRun,
    architecture: Architecture,
    network: TracedNetwork,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    factor: float = 1.0,
) -> None:
    """Layers and whole iterations; ``factor`` slows the iterations down."""
    store_layer_timings(run, network, batch_sizes)
    for size, ms in zip(batch_sizes, true_ms(network, batch_sizes), strict=True):
        create_iteration_timing(
            run=run, architecture=architecture, batch_size=size, samples_ms=[factor * ms]
        )


def measured_machine(
    networks: Sequence[TracedNetwork], *, slug: str = "local", runs: int = 1
) -> Machine:
    """A CPU machine on which all of ``networks`` were measured, in so many processes."""
    machine = create_cpu_machine(slug=slug)
    architectures = [store_network(network) for network in networks]
    for number in range(runs):
        run = create_run(machine=machine)
        for architecture, network in zip(architectures, networks, strict=True):
            measure_network(run, architecture, network, factor=1 + 0.02 * number)
    return machine


@cache
def _fit(number: int) -> tuple[FittedModel, Evaluation]:
    rows = make_training_set(make_networks(number))
    iterations = IterationModel(rows.kind).fit(
        rows.table, rows.iteration_ms, rows.mega_multiply_add_ms
    )
    evaluation = evaluate(rows)
    layers = fit_device_layers(rows.traced, rows.layer_times)
    return FittedModel(iterations, layers, evaluation.intervals), evaluation


def store_trained_model(machine: Machine, networks: int) -> TrainedModel:
    """What training on so many of ``make_networks`` gives, without training in every test."""
    stack = machine.runs.latest("started_at").stack
    layers, iterations = count_timings(
        device_id=machine.device_id, machine_id=machine.pk, stack_id=stack.pk
    )
    fitted, evaluation = _fit(networks)
    return store_model(
        machine,
        stack,
        fitted,
        evaluation,
        layer_timing_count=layers,
        iteration_timing_count=iterations,
    )
