"""The curve that forecasts are made of: sources, no jumps, honest gaps, constant queries."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarking.models import Architecture, Machine
from benchmarking.specs import Optimizer, Precision
from benchmarking.tests.factories import (
    create_cpu_machine,
    create_failed_timing,
    create_iteration_timing,
    create_machine,
    create_run,
    create_stack,
)
from regression.iteration import IterationCurve, iteration_curve
from regression.models import TrainedModel
from regression.sources import Source
from regression.tests.builders import (
    measure_network,
    measured_machine,
    store_layer_timings,
    store_network,
    store_trained_model,
    true_ms,
)
from regression.tests.synthetic import BATCH_SIZES, make_network, make_networks

pytestmark = pytest.mark.django_db

NETWORKS = make_networks(6)
NEW = make_network("newcomer", seed=77)


@pytest.fixture
def machine() -> Machine:
    """A CPU on which six networks were measured, with its trained model."""
    machine = measured_machine(NETWORKS, runs=2)
    store_trained_model(machine, networks=len(NETWORKS))
    return machine


def curve(
    place: Machine, architecture: Architecture, *batch_sizes: int, **values
) -> IterationCurve:
    defaults = {"precision": Precision.FP32, "device": place.device, "machine": place}
    return iteration_curve(
        architecture=architecture, batch_sizes=batch_sizes, **{**defaults, **values}
    )


def store_errors(**by_kind: float) -> None:
    """Make the active model one that has erred so much on each of its networks."""
    trained = TrainedModel.objects.get()
    trained.interval_errors = {
        kind: {network.slug: [error] for network in NETWORKS} for kind, error in by_kind.items()
    }
    trained.trained_at += timedelta(seconds=1)
    trained.save()


def stored(slug: str) -> Architecture:
    return Architecture.objects.prefetch_related("uses__layer").get(slug=slug)


def test_measured_batch_sizes_are_the_pooled_timings(machine: Machine) -> None:
    answer = curve(machine, stored("net00"), 1, 8)
    expected = [1.01 * ms for ms in true_ms(NETWORKS[0], (1, 8))]  # runs of factor 1 and 1.02
    assert answer.iteration_ms == pytest.approx(expected)
    assert answer.sources == (Source.MEASURED, Source.MEASURED)
    assert answer.measured_share == (1.0, 1.0)
    assert answer.notes == (None, None)
    assert answer.stack == create_stack().to_spec().label
    assert answer.model_version == TrainedModel.objects.get().version


def test_the_order_asked_for_is_kept(machine: Machine) -> None:
    answer = curve(machine, stored("net00"), 8, 1, 3)
    assert answer.batch_sizes == (8, 1, 3)
    assert answer.sources == (Source.MEASURED, Source.MEASURED, Source.INTERPOLATED)


def test_a_new_network_with_its_layers_timed_is_regressed(machine: Machine) -> None:
    architecture = store_network(NEW)
    store_layer_timings(create_run(machine=machine), NEW)
    answer = curve(machine, architecture, 1, 3, 8, 16)
    assert answer.sources == (
        Source.REGRESSED,
        Source.INTERPOLATED,
        Source.REGRESSED,
        Source.ESTIMATED,
    )
    truth = true_ms(NEW, (1, 8))
    assert [answer.iteration_ms[0], answer.iteration_ms[2]] == pytest.approx(truth, rel=0.12)
    assert answer.measured_share == (1.0, 1.0, 1.0, 0.0)


def test_every_interval_holds_its_value_and_grows_with_distance(machine: Machine) -> None:
    store_errors(run=0.02, interpolated=0.03, extrapolated=0.06)
    answer = curve(machine, stored("net01"), 1, 3, 8, 16, 64, 256)
    widths = [high / low for low, high in zip(answer.low_ms, answer.high_ms)]
    assert all(
        low < ms < high for low, ms, high in zip(answer.low_ms, answer.iteration_ms, answer.high_ms)
    )
    measured, interpolated, again_measured, *beyond = widths
    assert measured == pytest.approx(again_measured)
    assert measured < interpolated
    assert beyond == sorted(beyond) and beyond[0] < beyond[-1]


def test_a_change_of_source_makes_no_jump(machine: Machine) -> None:
    # A network that is 40 % slower than its features say, whole iterations known up to 2.
    architecture = store_network(NEW)
    run = create_run(machine=machine)
    store_layer_timings(run, NEW)
    measure_network(run, architecture, NEW, batch_sizes=(1, 2), factor=1.4)
    answer = curve(machine, architecture, 1, 2, 4, 8, 16)
    assert answer.sources == (
        Source.MEASURED,
        Source.MEASURED,
        Source.REGRESSED,
        Source.REGRESSED,
        Source.ESTIMATED,
    )
    truth = 1.4 * np.array(true_ms(NEW, (1, 2, 4, 8, 16)))
    per_example = np.array(answer.iteration_ms) / truth
    assert np.abs(np.diff(np.log(per_example))).max() < 0.06


def test_anchored_points_have_the_narrower_interval(machine: Machine) -> None:
    store_errors(regressed=0.3, anchored=0.1)
    architecture = store_network(NEW)
    run = create_run(machine=machine)
    store_layer_timings(run, NEW)
    free = curve(machine, architecture, 4)
    create_iteration_timing(run=run, architecture=architecture, batch_size=1, samples_ms=[50.0])
    anchored = curve(machine, architecture, 4)
    assert free.high_ms[0] / free.iteration_ms[0] == pytest.approx(np.exp(0.3))
    assert anchored.high_ms[0] / anchored.iteration_ms[0] == pytest.approx(np.exp(0.1))


def test_one_network_on_a_machine_is_measured_and_the_rest_says_why_not() -> None:
    machine = measured_machine(NETWORKS[:1])
    store_trained_model(machine, networks=1)
    own = curve(machine, stored("net00"), 1, 2)
    assert own.sources == (Source.MEASURED, Source.MEASURED)
    known = {use.layer for use in NETWORKS[0].convolutions}
    lacking = sum(use.layer not in known for use in NEW.convolutions)
    other = curve(machine, store_network(NEW), 1)
    assert other.iteration_ms == other.low_ms == other.sources == (None,)
    assert other.stack is None
    assert other.model_version == ""
    assert other.notes == (
        f"Not covered: {lacking} of {len(NEW.convolutions)} convolution layers "
        "have no timings on local-cpu.",
    )


def test_a_model_of_few_networks_says_so_and_is_wide(machine: Machine) -> None:
    architecture = store_network(NEW)
    store_layer_timings(create_run(machine=machine), NEW)
    answer = curve(machine, architecture, 1)
    assert answer.notes == ("The remainder was learnt from 6 CNNs only.",)


def test_measured_points_need_no_model() -> None:
    machine, architecture = create_cpu_machine(), store_network(NEW)
    run = create_run(machine=machine)
    for size in (2, 4):
        create_iteration_timing(
            run=run, architecture=architecture, batch_size=size, samples_ms=[10.0 * size]
        )
    answer = curve(machine, architecture, 1, 2, 3, 4, 8)
    assert answer.iteration_ms == pytest.approx((10, 20, 30, 40, 80))
    assert answer.sources == (
        Source.ESTIMATED,
        Source.MEASURED,
        Source.INTERPOLATED,
        Source.MEASURED,
        Source.ESTIMATED,
    )
    assert answer.model_version == ""


class TestUnmeasuredLayers:
    @pytest.fixture
    def well_known(self) -> Machine:
        """A CPU with enough layers timed to know others from them."""
        machine = measured_machine(make_networks(12))
        store_trained_model(machine, networks=12)
        return machine

    def test_they_are_estimated_from_the_devices_other_layers(self, well_known: Machine) -> None:
        answer = curve(well_known, store_network(NEW), 1, 4, 8, 16)
        assert set(answer.sources) == {Source.ESTIMATED}
        assert answer.iteration_ms == pytest.approx(true_ms(NEW, (1, 4, 8, 16)), rel=0.1)
        assert all(0 <= share < 1 for share in answer.measured_share)
        assert answer.notes[0].endswith(
            "convolution layers are estimated from other layers timed on this device."
        )
        assert answer.notes[3].endswith(
            "on this device; extrapolated from the largest known batch size, 8."
        )

    def test_the_more_is_estimated_the_wider_the_interval(self, well_known: Machine) -> None:
        slugs = [network.slug for network in make_networks(12)]
        trained = TrainedModel.objects.get()
        trained.interval_errors = {
            "regressed": {slug: [0.1] for slug in slugs},
            "layers": {slug: [0.3] for slug in slugs},
        }
        trained.trained_at += timedelta(seconds=1)
        trained.save()
        answer = curve(well_known, store_network(NEW), 4)
        width = np.log(answer.high_ms[0] / answer.iteration_ms[0])
        assert width == pytest.approx(np.hypot(0.1, 0.3 * (1 - answer.measured_share[0])))

    def test_measured_iterations_anchor_them_too(self, well_known: Machine) -> None:
        architecture = store_network(NEW)
        slow = 1.4 * np.array(true_ms(NEW, (1, 2, 8)))
        run = well_known.runs.first()
        for size, ms in zip((1, 2), slow, strict=False):
            create_iteration_timing(
                run=run, architecture=architecture, batch_size=size, samples_ms=[ms]
            )
        answer = curve(well_known, architecture, 1, 2, 8)
        assert answer.sources == (Source.MEASURED, Source.MEASURED, Source.ESTIMATED)
        assert answer.iteration_ms == pytest.approx(slow, rel=0.1)


def test_a_cpu_without_timings_has_no_answer() -> None:
    machine = create_cpu_machine()
    answer = curve(machine, store_network(NEW), 1, 2)
    layers = len(NEW.convolutions)
    assert answer.iteration_ms == (None, None)
    assert answer.stack is None
    assert set(answer.notes) == {
        f"Not covered: {layers} of {layers} convolution layers have no timings "
        "on local-cpu in fp32."
    }
    assert answer.memory_mib[0] > 0


def test_timings_of_another_stack_are_not_mixed_in(machine: Machine) -> None:
    architecture = store_network(NEW)
    older = create_run(machine=machine, stack=create_stack(framework_version="1.13.0"))
    store_layer_timings(older, NEW)
    answer = curve(machine, architecture, 1)
    assert answer.iteration_ms == (None,)
    assert "have no timings on local-cpu" in answer.notes[0]


def test_iterations_of_another_machine_are_not_measured_here(machine: Machine) -> None:
    twin = create_machine(device=machine.device)
    answer = curve(twin, stored("net00"), 1)
    assert answer.sources == (Source.REGRESSED,)
    assert answer.notes == (
        "The remainder was learnt on local; the remainder was learnt from 6 CNNs only.",
    )


def test_a_device_without_a_machine_is_regressed(machine: Machine) -> None:
    answer = curve(machine, stored("net00"), 1, machine=None)
    assert answer.sources == (Source.REGRESSED,)
    assert answer.memory_mib[0] > 0


def test_adamw_is_estimated_from_sgd_and_costs_more(machine: Machine) -> None:
    sgd = curve(machine, stored("net00"), 1, 8)
    adamw = curve(machine, stored("net00"), 1, 8, optimizer=Optimizer.ADAMW)
    assert adamw.sources == (Source.ESTIMATED, Source.ESTIMATED)
    assert all(a > s for a, s in zip(adamw.iteration_ms, sgd.iteration_ms))
    assert adamw.high_ms[0] / adamw.low_ms[0] > sgd.high_ms[0] / sgd.low_ms[0]
    assert adamw.notes[0].startswith("Learnt with sgd: the step of adamw")


def test_below_the_smallest_trainable_batch_there_is_a_reason(machine: Machine) -> None:
    network = dataclasses.replace(NEW, slug="normalizes")
    architecture = store_network(network)
    architecture.minimum_batch_size = 2
    architecture.save()
    store_layer_timings(create_run(machine=machine), network)
    answer = curve(machine, architecture, 1, 2)
    assert answer.iteration_ms[0] is None and answer.iteration_ms[1] > 0
    assert answer.notes[0] == (
        "Batches below 2 cannot train: BatchNorm would see a single value per channel."
    )


class TestMemory:
    def test_what_ran_fits_and_what_ran_out_does_not(self, machine: Machine) -> None:
        machine.device.usable_memory_mib = 1.0
        architecture = stored("net00")
        answer = curve(machine, architecture, 8, 64)
        assert answer.fits == ("yes", "no")
        assert answer.largest_batch == 8

    def test_out_of_memory_is_remembered(self, machine: Machine) -> None:
        machine.device.usable_memory_mib = 1e6
        architecture = stored("net00")
        run = machine.runs.first()
        create_failed_timing(run=run, architecture=architecture, batch_size=32)
        answer = curve(machine, architecture, 16, 32, 64)
        assert answer.fits == ("yes", "no", "no")
        assert answer.largest_batch == 31
        assert answer.iteration_ms[2] > 0  # times are kept

    def test_a_cpu_of_unknown_memory_has_its_machines(self, machine: Machine) -> None:
        machine.device.usable_memory_mib = None
        machine.memory_gib = None
        assert curve(machine, stored("net00"), 64).fits == ("unknown",)
        machine.memory_gib = 512.0
        assert curve(machine, stored("net00"), 64).fits == ("yes",)


def test_a_gpu_without_timings_is_estimated_from_its_specification() -> None:
    machine = create_machine()
    answer = curve(machine, store_network(NEW), 1, 32, 2048)
    assert answer.sources == (Source.ESTIMATED, Source.ESTIMATED, None)
    assert answer.stack is None
    assert answer.model_version
    assert answer.measured_share == (0.0, 0.0, None)
    assert answer.low_ms[1] < answer.iteration_ms[1] < answer.high_ms[1]
    assert answer.notes[2] == "Estimates from a specification end at batch size 1024."


def test_a_gpu_without_known_rates_is_not_estimated() -> None:
    machine = create_machine()
    machine.device.fp32_tflops = None
    answer = curve(machine, store_network(NEW), 1)
    assert answer.iteration_ms == (None,)
    assert answer.notes[0].startswith("Not estimated: ")


def test_the_number_of_queries_does_not_depend_on_the_batch_sizes(machine: Machine) -> None:
    architecture = stored("net00")
    curve(machine, architecture, 1)
    counts = []
    for sizes in ((1,), range(1, 65), range(1, 513)):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            curve(machine, architecture, *sizes)
        counts.append(len(queries))
    assert counts == [6, 6, 6]


def test_all_columns_are_equally_long(machine: Machine) -> None:
    answer = curve(machine, stored("net00"), *BATCH_SIZES, 3, 5)
    lengths = {
        len(value)
        for name, value in dataclasses.asdict(answer).items()
        if isinstance(value, (tuple, list))
    }
    assert lengths == {6}
