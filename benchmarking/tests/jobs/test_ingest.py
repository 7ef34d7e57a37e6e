"""Storing results: whole runs or nothing, each line once, on the right machine only."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks
from pytest_django.fixtures import DjangoAssertNumQueries

from benchmarking.jobs.ingest import IngestError, StoredCounts, store_results
from benchmarking.jobs.provenance import ProvenanceError
from benchmarking.models import (
    ConvolutionLayer,
    FailedTiming,
    IterationTiming,
    LayerTiming,
    Machine,
    MeasurementRun,
    SoftwareStack,
)
from benchmarking.probe.results import ResultLine, parse_results
from benchmarking.signals import timings_stored
from benchmarking.tests.factories import (
    MIDDLE_LAYER,
    TINY_OPERATIONS,
    create_architecture,
    create_cpu_machine,
    create_device,
    create_machine,
    create_run,
    create_stack,
)
from benchmarking.tests.probe_lines import (
    as_bytes,
    convolution_line,
    done_line,
    environment_line,
    error_line,
    iteration_line,
)

pytestmark = pytest.mark.django_db


def parsed(*lines: dict[str, Any]) -> list[ResultLine]:
    return list(parse_results(as_bytes(*lines).splitlines(keepends=True)))


@pytest.fixture
def machine() -> Machine:
    create_architecture(slug="tinynet")
    return create_cpu_machine(slug="local")


@pytest.fixture
def stored_machine_ids() -> Iterator[list[int]]:
    heard: list[int] = []

    def hear(sender: Any, machine_id: int, **_: Any) -> None:
        heard.append(machine_id)

    timings_stored.connect(hear)
    yield heard
    timings_stored.disconnect(hear)


def test_r14_run_is_stored_with_everything_that_was_printed(machine: Machine) -> None:
    environment = environment_line()
    samples = {"forward": [1.0, 3.0, 9.0], "backward_filter": [2.0]}
    lines = [
        environment,
        convolution_line(samples_ms=samples),
        iteration_line(samples_ms=[10.0, 12.0, 30.0], peak_memory_bytes=2**33),
        error_line(),
        done_line(),
    ]

    counts = store_results(parsed(*lines))

    assert counts == StoredCounts(
        runs=1,
        layer_timings=2,
        iteration_timings=1,
        failures=1,
        duplicates=0,
        machines={"local"},
    )
    run = MeasurementRun.objects.get()
    assert str(run.pk) == environment["run_id"]
    assert (run.machine, run.job) == (machine, None)
    assert run.environment == environment
    assert run.completion == done_line()
    assert run.stack.to_spec().label == "torch 2.14.1 · fp32 · 1 thread"
    forward = LayerTiming.objects.get(operation="forward")
    assert forward.layer.to_spec() == MIDDLE_LAYER
    assert (forward.batch_size, forward.round) == (4, 1)
    assert (forward.samples_ms, forward.milliseconds) == ([1.0, 3.0, 9.0], 2.0)
    iteration = IterationTiming.objects.get()
    assert (iteration.architecture.slug, iteration.milliseconds) == ("tinynet", 11.0)
    assert iteration.peak_memory_bytes == 2**33
    failure = FailedTiming.objects.get()
    assert (failure.kind, failure.batch_size) == ("out_of_memory", 512)
    assert failure.layer is not None
    assert failure.layer.to_spec() == MIDDLE_LAYER


def test_r12_second_import_changes_nothing_and_counts_duplicates(machine: Machine) -> None:
    lines = parsed(environment_line(), convolution_line(), iteration_line(), error_line())
    store_results(lines)

    counts = store_results(lines)

    assert counts == StoredCounts(duplicates=3, machines={"local"})
    assert LayerTiming.objects.count() == 1
    assert IterationTiming.objects.count() == 1
    assert FailedTiming.objects.count() == 1


def test_longer_file_of_a_run_adds_what_is_new(machine: Machine) -> None:
    environment = environment_line()
    store_results(parsed(environment, convolution_line()))

    counts = store_results(parsed(environment, convolution_line(), convolution_line(round=2)))

    assert (counts.runs, counts.layer_timings, counts.duplicates) == (0, 1, 1)


def test_runs_of_one_file_are_told_apart(machine: Machine) -> None:
    lines = [environment_line(), convolution_line(), environment_line(), convolution_line()]

    counts = store_results(parsed(*lines))

    assert (counts.runs, counts.layer_timings, counts.duplicates) == (2, 2, 0)
    assert LayerTiming.objects.values("run").distinct().count() == 2


def test_layers_are_shared_and_made_where_they_are_new(machine: Machine) -> None:
    known = ConvolutionLayer.objects.count()
    wide = MIDDLE_LAYER.__class__(8, 16, 16, 99, 3, 3)

    store_results(
        parsed(environment_line(), convolution_line(), convolution_line(layer=wide, batch_size=8))
    )

    assert ConvolutionLayer.objects.count() == known + 1


def test_r12_nothing_is_stored_when_one_line_cannot_be(machine: Machine) -> None:
    lines = parsed(
        environment_line(),
        convolution_line(),
        environment_line(),
        iteration_line(architecture="tinynett"),
    )

    with pytest.raises(IngestError) as refused:
        store_results(lines)

    assert str(refused.value) == ("line 4: unknown architecture 'tinynett' (did you mean tinynet?)")
    assert MeasurementRun.objects.count() == 0
    assert LayerTiming.objects.count() == 0
    assert SoftwareStack.objects.count() == 0
    machine.device.refresh_from_db()
    assert machine.device.reported_name == ""


def test_unknown_image_size_is_refused_with_the_known_ones(machine: Machine) -> None:
    create_architecture(slug="tinynet", image_size=64)

    with pytest.raises(
        IngestError, match="line 2: tinynet is not known at 33 px; known are 32, 64 px"
    ):
        store_results(parsed(environment_line(), iteration_line(image_size=33)))


def test_iteration_with_heads_is_not_one_of_a_trace_without(machine: Machine) -> None:
    losses = ["nll_loss_forward", "forward", 2, 1.0, 1.0, 0.0]
    create_architecture(slug="googlenet", operations=[losses, *TINY_OPERATIONS])
    lines = [environment_line(), iteration_line(architecture="googlenet")]

    with pytest.raises(IngestError, match="line 2: googlenet at 32 px is known with auxiliary"):
        store_results(parsed(*lines))

    lines[1] = iteration_line(architecture="googlenet", auxiliary_heads=True)
    assert store_results(parsed(*lines)).iteration_timings == 1


def test_machine_can_be_given_for_results_that_name_none(machine: Machine) -> None:
    lines = parsed(environment_line(machine=""), convolution_line())

    with pytest.raises(ProvenanceError, match="the results name no machine; say which with"):
        store_results(lines)
    assert store_results(lines, machine=machine).machines == {"local"}


def test_unknown_machine_is_refused_with_a_suggestion(machine: Machine) -> None:
    with pytest.raises(ProvenanceError) as refused:
        store_results(parsed(environment_line(machine="locale"), convolution_line()))

    assert str(refused.value) == "unknown machine 'locale' (did you mean local?)"


def test_run_of_one_machine_cannot_become_one_of_another(machine: Machine) -> None:
    other = create_cpu_machine(slug="elsewhere")
    lines = parsed(environment_line(), convolution_line())
    store_results(lines)

    with pytest.raises(IngestError, match="is stored as one of local, it cannot be one of else"):
        store_results(lines, machine=other)


def test_first_timings_pin_the_cpu(machine: Machine) -> None:
    store_results(parsed(environment_line(), convolution_line()))

    machine.device.refresh_from_db()
    assert machine.device.reported_name == "Test CPU"
    assert machine.device.cpu_signature == "6-1-1"
    # What was known before stays.
    assert (machine.device.memory_mib, machine.device.usable_memory_mib) == (16384.0, 15000.0)


def test_memory_of_the_cpu_is_filled_in_where_nobody_knew_it() -> None:
    machine = create_cpu_machine(memory_mib=None, usable_memory_mib=None)

    store_results(parsed(environment_line(), convolution_line()))

    machine.device.refresh_from_db()
    assert (machine.device.memory_mib, machine.device.usable_memory_mib) == (8192.0, 8192.0)


@pytest.mark.parametrize(
    "cpu",
    [
        {"model": "Other CPU", "signature": "6-1-1"},
        {"model": "Test CPU", "signature": "6-2-1"},
    ],
)
def test_r14_timings_of_another_cpu_are_refused(cpu: dict[str, str]) -> None:
    create_cpu_machine(slug="reference-cpu", reported_name="Test CPU", cpu_signature="6-1-1")

    with pytest.raises(ProvenanceError) as refused:
        store_results(parsed(environment_line(machine="reference-cpu", cpu=cpu)))

    assert str(refused.value) == (
        "reference-cpu is pinned to the CPU Test CPU (6-1-1); this one is "
        f"{cpu['model']} ({cpu['signature']}); use --machine local here"
    )


def test_reference_machine_keeps_its_stack() -> None:
    machine = create_cpu_machine(slug="reference-cpu")
    machine.provider = "reference"
    machine.save()
    create_run(machine=machine, stack=create_stack(framework_version="1.12.0"))

    with pytest.raises(ProvenanceError) as refused:
        store_results(parsed(environment_line(machine="reference-cpu")))

    assert str(refused.value) == (
        "reference-cpu is pinned to the stack torch 1.12.0 · fp32 · 1 thread; "
        "this one is torch 2.14.1 · fp32 · 1 thread"
    )


def gpu_machine(reported_name: str) -> Machine:
    device = create_device(name="NVIDIA V100", reported_name=reported_name)
    return create_machine(slug="aws-p3.2xlarge", device=device)


def gpu_environment(name: str) -> dict[str, Any]:
    return environment_line(machine="aws-p3.2xlarge", gpu={"name": name})


@pytest.mark.parametrize(
    ("patterns", "reported"),
    [
        ("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-16GB"),
        ("Tesla V100-SXM2-16GB | NVIDIA V100*", "NVIDIA V100-SXM2-16GB"),
        ("tesla v100-sxm2-16gb", "Tesla V100-SXM2-16GB"),
    ],
)
def test_gpu_is_known_by_any_of_its_names(patterns: str, reported: str) -> None:
    gpu_machine(patterns)

    counts = store_results(parsed(gpu_environment(reported), convolution_line()))

    assert counts.layer_timings == 1


@pytest.mark.parametrize("reported", ["Tesla V100-SXM2-32GB", "Tesla T4", "V100"])
def test_r14_other_gpu_is_refused(reported: str) -> None:
    gpu_machine("Tesla V100-SXM2-16GB")

    with pytest.raises(ProvenanceError) as refused:
        store_results(parsed(gpu_environment(reported), convolution_line()))

    assert str(refused.value) == (
        "aws-p3.2xlarge has a NVIDIA V100 (reported as Tesla V100-SXM2-16GB); "
        f"this device is a {reported}"
    )
    assert MeasurementRun.objects.count() == 0


def test_gpu_whose_name_nobody_entered_is_refused() -> None:
    gpu_machine("")

    with pytest.raises(ProvenanceError, match="enter 'Tesla T4' as its reported name"):
        store_results(parsed(gpu_environment("Tesla T4")))


def test_cpu_and_gpu_timings_are_not_confused(machine: Machine) -> None:
    gpu_machine("Tesla V100-SXM2-16GB")

    with pytest.raises(ProvenanceError, match="these timings were taken on a CPU"):
        store_results(parsed(environment_line(machine="aws-p3.2xlarge")))
    with pytest.raises(ProvenanceError, match=r"local is measured on its CPU; .* on a Tesla T4"):
        store_results(parsed(environment_line(gpu={"name": "Tesla T4"})))


def test_news_of_new_timings_goes_up_once_they_are_committed(
    machine: Machine,
    stored_machine_ids: list[int],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    lines = parsed(environment_line(), convolution_line(), iteration_line())

    with django_capture_on_commit_callbacks(execute=True):
        store_results(lines)
        assert stored_machine_ids == []
    assert stored_machine_ids == [machine.pk]

    with django_capture_on_commit_callbacks(execute=True):
        store_results(lines)
    assert stored_machine_ids == [machine.pk]


def test_many_lines_cost_few_queries(
    machine: Machine, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    lines = [convolution_line(batch_size=size + 1) for size in range(500)]
    records = parsed(environment_line(), *lines)

    with django_assert_max_num_queries(25):
        counts = store_results(records)

    assert counts.layer_timings == 500


def test_run_id_is_what_makes_a_run() -> None:
    create_cpu_machine()
    run_id = str(uuid.uuid4())

    store_results(parsed(environment_line(run_id=run_id)))
    store_results(parsed(environment_line(run_id=run_id)))

    assert MeasurementRun.objects.get().pk == uuid.UUID(run_id)


@pytest.mark.parametrize("make_line", [convolution_line, iteration_line])
def test_r12_a_timing_given_twice_with_other_samples_is_refused_whole(
    machine: Machine, make_line: Callable[[], dict[str, Any]]
) -> None:
    again = make_line()
    samples = again["samples_ms"]
    again["samples_ms"] = (
        {name: [value + 1 for value in values] for name, values in samples.items()}
        if isinstance(samples, dict)
        else [value + 1 for value in samples]
    )
    with pytest.raises(IngestError, match=r"^line 3: gives the timing of line 2 again"):
        store_results(parsed(environment_line(), make_line(), again), machine=machine)
    assert MeasurementRun.objects.count() == 0


def test_r12_the_very_same_line_twice_counts_as_a_duplicate(machine: Machine) -> None:
    counts = store_results(
        parsed(environment_line(), iteration_line(), iteration_line()), machine=machine
    )
    assert (counts.iteration_timings, counts.duplicates) == (1, 1)
