"""Timings of DNNMark: their sum for VGG16, and that they never meet those of another engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command

from benchmarking.catalogue.architectures import store_traced_files
from benchmarking.models import Architecture, FailedTiming, LayerTiming, Machine, SoftwareStack
from benchmarking.specs import Precision, TracedNetwork
from benchmarking.tests.factories import create_device, create_machine, create_run, create_stack
from benchmarking.tracing.fixture import load_traced_file
from regression.convolution import complete_sums, sum_convolutions
from regression.iteration import IterationCurve, iteration_curve
from regression.sources import Source
from regression.tests.builders import measured_machine, store_layer_timings, store_trained_model
from regression.tests.synthetic import BATCH_SIZES, make_networks
from regression.timings import load_layer_times
from regression.training import load_training_set

pytestmark = pytest.mark.django_db

# VGG16's nine distinct convolution layers as H-W-C-K-S-P-U and made-up milliseconds at batch 64:
# forward, backward filter, backward data.
VGG16_MS = {
    "224-224-3-64-3-1-1": (10.0, 12.0, 99.0),
    "224-224-64-64-3-1-1": (44.0, 50.0, 48.0),
    "112-112-64-128-3-1-1": (20.0, 24.0, 21.0),
    "112-112-128-128-3-1-1": (38.0, 40.0, 39.0),
    "56-56-128-256-3-1-1": (18.0, 22.0, 19.0),
    "56-56-256-256-3-1-1": (36.0, 42.0, 37.0),
    "28-28-256-512-3-1-1": (17.0, 20.0, 18.0),
    "28-28-512-512-3-1-1": (34.0, 40.0, 35.0),
    "14-14-512-512-3-1-1": (9.0, 11.0, 10.0),
}
# Calculated by hand: 256-256 and the later 512-512 at 28 pixels run twice an iteration, 512-512 at
# 14 pixels three times, and the first layer's backward data is no part of it.
VGG16_FORWARD_MS = 10 + 44 + 20 + 38 + 18 + 2 * 36 + 17 + 2 * 34 + 3 * 9  # 314
VGG16_FILTER_MS = 12 + 50 + 24 + 40 + 22 + 2 * 42 + 20 + 2 * 40 + 3 * 11  # 365
VGG16_DATA_MS = 48 + 21 + 39 + 19 + 2 * 37 + 18 + 2 * 35 + 3 * 10  # 319
VGG16_SUM_MS = 998.0


@pytest.fixture
def vgg16() -> Architecture:
    """VGG16 as it is shipped."""
    shipped = load_traced_file(Path(settings.BASE_DIR) / "fixtures" / "architectures.json")
    networks = [each for each in shipped.networks if (each.slug, each.image_size) == ("vgg16", 224)]
    store_traced_files([replace(shipped, networks=networks)])
    return Architecture.objects.with_layers().get(slug="vgg16")


def record(milliseconds: dict[str, float], batch_size: int) -> str:
    """Tables as the fork prints them; every fourth iteration takes three times as long."""
    lines = []
    direction = "BWD" if "ConvBwdFilter" in milliseconds else "FWD"
    total_ms = 0.0
    for iteration in range(4):
        for operation, each_ms in milliseconds.items():
            taken_ms = each_ms * (3 if iteration == 0 else 1)
            total_ms += taken_ms
            lines.append(
                f"n={batch_size} Operation {operation}_0: GPU time {taken_ms:f}ms, "
                "CPU time 0.011000ms"
            )
    lines.append(f"n={batch_size} {direction} time(ms): {total_ms:f}")
    return "\n".join(lines) + "\n"


def test_sum_of_a_recorded_vgg16_is_the_one_calculated_by_hand(
    vgg16: Architecture, tmp_path: Path
) -> None:
    device = create_device(reported_name="Tesla V100-SXM2-16GB")
    machine = create_machine(slug="aws-p3.2xlarge", device=device)
    forward, backward = tmp_path / "forward.log", tmp_path / "backward.log"
    with forward.open("w") as forward_log, backward.open("w") as backward_log:
        for name, (forward_ms, filter_ms, data_ms) in VGG16_MS.items():
            forward_log.write(f"# layer: {name}\n" + record({"ConvFwd": forward_ms}, 64))
            forward_log.write(record({"ConvFwd": 2 * forward_ms}, 128))
            operations = {"ConvBwdFilter": filter_ms, "ConvBwdData": data_ms}
            backward_log.write(f"# layer: {name}\n" + record(operations, 64))
            backward_log.write("Using MBS 128\nCUDA Error at /DNNMark/data_manager.h63\n")
            backward_log.write("out of memory\n")

    call_command("import_measurements", str(forward), str(backward), machine=machine.slug)

    assert LayerTiming.objects.count() == 9 * 4
    assert FailedTiming.objects.filter(kind="out_of_memory", batch_size=128).count() == 9
    stack = SoftwareStack.objects.get(engine="dnnmark")
    times = load_layer_times(device_id=device.pk, stack_id=stack.pk, architecture_id=vgg16.pk)
    # Only the batch size at which every layer has a time counts.
    (total,) = complete_sums(vgg16.to_spec(), [64, 128], times)
    assert VGG16_FORWARD_MS + VGG16_FILTER_MS + VGG16_DATA_MS == VGG16_SUM_MS
    assert (total.batch_size, total.milliseconds) == (64, pytest.approx(VGG16_SUM_MS))
    assert total.measured_share == 1.0


@pytest.fixture
def known_machine() -> Machine:
    """A machine on which twelve networks were measured with torch, with its trained model."""
    machine = measured_machine(make_networks(12))
    store_trained_model(machine, networks=12)
    return machine


def dnnmark() -> SoftwareStack:
    return create_stack(engine="dnnmark", framework_version="fork")


def halves(architecture: Architecture) -> tuple[TracedNetwork, TracedNetwork]:
    network = architecture.to_spec()
    middle = len(network.convolutions) // 2
    return (
        replace(network, convolutions=network.convolutions[:middle]),
        replace(network, convolutions=network.convolutions[middle:]),
    )


def curve_of(architecture: Architecture, machine: Machine) -> IterationCurve:
    return iteration_curve(
        architecture=architecture,
        device=machine.device,
        machine=machine,
        precision=Precision.FP32,
        batch_sizes=BATCH_SIZES,
    )


@pytest.mark.parametrize("torch_half", [0, 1])
def test_halves_of_two_engines_never_make_a_sum(
    known_machine: Machine, vgg16: Architecture, torch_half: int
) -> None:
    by_torch, by_dnnmark = halves(vgg16) if torch_half == 0 else reversed(halves(vgg16))
    store_layer_timings(create_run(machine=known_machine), by_torch)
    alone = curve_of(vgg16, known_machine)

    store_layer_timings(create_run(machine=known_machine, stack=dnnmark()), by_dnnmark)

    both = curve_of(vgg16, known_machine)
    assert Source.REGRESSED not in both.sources
    assert all(share is not None and share < 1 for share in both.measured_share)
    # What DNNMark timed changes nothing at all in the forecasts from torch's timings.
    assert both == alone
    torch = create_stack()
    for stack in (torch, dnnmark()):
        times = load_layer_times(device_id=known_machine.device_id, stack_id=stack.pk)
        assert all(
            not sum_convolutions(vgg16.to_spec(), size, times).is_complete for size in BATCH_SIZES
        )
    # With the other half from torch as well, the sum is complete.
    store_layer_timings(create_run(machine=known_machine), by_dnnmark)
    assert set(curve_of(vgg16, known_machine).sources) == {Source.REGRESSED}


def test_all_layers_of_the_other_engine_are_no_sum_of_this_one(
    known_machine: Machine, vgg16: Architecture
) -> None:
    store_layer_timings(create_run(machine=known_machine, stack=dnnmark()), vgg16.to_spec())

    curve = curve_of(vgg16, known_machine)

    assert Source.REGRESSED not in curve.sources
    assert set(curve.measured_share) == {0.0}


def test_models_of_torch_learn_nothing_from_dnnmark(
    known_machine: Machine, vgg16: Architecture
) -> None:
    before = load_training_set(known_machine, create_stack()).data_hash()
    slow = create_run(machine=known_machine, stack=dnnmark())
    for timing in LayerTiming.objects.filter(run__machine=known_machine):
        LayerTiming.objects.create(
            run=slow,
            layer=timing.layer,
            batch_size=timing.batch_size,
            operation=timing.operation,
            samples_ms=[100 * timing.milliseconds],
            milliseconds=100 * timing.milliseconds,
        )

    assert load_training_set(known_machine, create_stack()).data_hash() == before
