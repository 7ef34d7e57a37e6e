"""The benchmark command with --engine dnnmark: a real detached process, the stub for DNNMark."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from benchmarking.models import (
    BenchmarkJob,
    FailedTiming,
    IterationTiming,
    LayerTiming,
    Machine,
    MeasurementRun,
)
from benchmarking.tests.factories import (
    FIRST_LAYER,
    MIDDLE_LAYER,
    create_architecture,
    create_cpu_machine,
    create_device,
    create_machine,
)
from benchmarking.tests.probe.dnnmark_stub import build_tree
from benchmarking.tests.processes import end_started_probes

pytestmark = pytest.mark.django_db

# A tiny network has a first layer of two passes and a second one of three that are not grouped.
PASSES_PER_BATCH_SIZE = 5
LEFT_OUT = [
    "DNNMark times layers and no whole iterations; use the torch engine for those.",
    "1 layer of tinynet is grouped or dilated: DNNMark cannot time it; use the torch engine.",
]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = build_tree(tmp_path / "DNNMark")
    monkeypatch.setenv("PATH", f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return root


@pytest.fixture
def machine(root: Path, tmp_path: Path, settings: Settings) -> Machine:
    settings.VAR_DIR = tmp_path
    settings.BENCHMARK_PYTHON = sys.executable
    create_architecture(slug="tinynet")
    device = create_device(slug="t4", name="T4", reported_name="Tesla T4")
    return create_machine(slug="lab-t4", device=device, dnnmark_root=str(root))


@pytest.fixture(autouse=True)
def naps(monkeypatch: pytest.MonkeyPatch) -> None:
    real_sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: real_sleep(min(seconds, 0.01)))


@pytest.fixture(autouse=True)
def no_process_left(tmp_path: Path) -> Iterator[None]:
    yield
    end_started_probes(tmp_path)


def benchmark(*arguments: str) -> list[str]:
    output = io.StringIO()
    call_command(
        "benchmark", "--machine", "lab-t4", "--engine", "dnnmark", *arguments, stdout=output
    )
    return output.getvalue().splitlines()


def refusal(*arguments: str) -> str:
    with pytest.raises(CommandError) as refused:
        call_command("benchmark", "--engine", "dnnmark", *arguments, stdout=io.StringIO())
    assert refused.value.returncode == 2
    assert BenchmarkJob.objects.count() == 0
    (line,) = str(refused.value).splitlines()
    return line


def test_missing_layers_are_planned_measured_and_stored(machine: Machine, tmp_path: Path) -> None:
    *left_out, plan, last = benchmark("--batch-sizes", "1,8")

    assert left_out == LEFT_OUT
    assert plan.startswith(
        "lab-t4 · dnnmark fork · fp32: 10 timings are missing, in 4 pieces of work; expected time "
    )
    assert last == "4 of 4 pieces of work measured. Everything that was planned is measured."
    job = BenchmarkJob.objects.get()
    assert (job.engine, job.state, job.plan["dnnmark"]["root"]) == (
        "dnnmark",
        "succeeded",
        machine.dnnmark_root,
    )
    run = MeasurementRun.objects.select_related("stack").get()
    assert (run.job, run.stack.engine, run.machine) == (job, "dnnmark", machine)
    assert run.environment["gpu"]["name"] == "Tesla T4"
    assert LayerTiming.objects.count() == 2 * PASSES_PER_BATCH_SIZE
    assert IterationTiming.objects.count() == 0
    assert {timing.layer.to_spec() for timing in LayerTiming.objects.select_related("layer")} == {
        FIRST_LAYER,
        MIDDLE_LAYER,
    }
    assert len(LayerTiming.objects.first().samples_ms) == 10

    # What DNNMark printed lies beside the results and says the same; it has also timed the
    # backward data of the first layer, which the network does not need.
    (log,) = tmp_path.glob("runs/*/dnnmark.log")
    output = io.StringIO()
    call_command("import_measurements", str(log), stdout=output)
    assert output.getvalue().strip() == (
        "lab-t4: 2 layer timings, 0 iteration timings and 0 failures stored from 0 new runs; "
        "10 were stored before"
    )


def test_second_start_finds_nothing_missing(machine: Machine) -> None:
    benchmark("--batch-sizes", "1")

    assert benchmark("--batch-sizes", "1")[-1] == (
        "lab-t4 · dnnmark fork · fp32: nothing is missing (5 are measured or under way)."
    )


def test_out_of_memory_is_kept_and_not_tried_again(machine: Machine, root: Path) -> None:
    (root / "behaviour").write_text("out_of_memory:16")

    assert benchmark("--batch-sizes", "8,16,32")[-1] == (
        "2 of 6 pieces of work measured, 4 failed. Everything that was planned is measured."
    )
    failures = FailedTiming.objects.filter(kind="out_of_memory")
    assert sorted(failures.values_list("batch_size", flat=True)) == [16, 16, 32, 32]
    assert "nothing is missing" in benchmark("--batch-sizes", "8,16,32")[-1]


def test_dry_run_needs_no_dnnmark_on_this_computer(machine: Machine) -> None:
    Machine.objects.update(dnnmark_root="/opt/DNNMark")

    *left_out, plan = benchmark("--batch-sizes", "1,8", "--dry-run")

    assert left_out == LEFT_OUT
    assert plan.startswith(
        "lab-t4 · dnnmark of unknown version · fp32: 10 timings are missing, in 4 pieces of work; "
    )
    assert BenchmarkJob.objects.count() == 0


def test_what_cannot_be_measured_so_gets_one_line(machine: Machine) -> None:
    create_cpu_machine(slug="local")
    create_machine(slug="bare")

    assert refusal("--machine", "local") == "DNNMark measures GPUs; local is measured on its CPU."
    assert refusal("--machine", "bare", "--dry-run") == (
        "bare has no DNNMark: enter the folder of a built tree on its image as its DNNMark root "
        "in the admin, or use the torch engine."
    )
    assert refusal("--machine", "lab-t4", "--precision", "amp") == (
        "DNNMark measures in fp32 only, not in amp."
    )
    Machine.objects.filter(slug="lab-t4").update(dnnmark_root="/opt/DNNMark")
    assert refusal("--machine", "lab-t4").startswith("no built DNNMark under /opt/DNNMark: neither")


def test_other_gpu_than_expected_is_refused(machine: Machine) -> None:
    machine.device.reported_name = "Tesla V100-SXM2-16GB"
    machine.device.save()

    assert refusal("--machine", "lab-t4") == (
        "lab-t4 has a T4 (reported as Tesla V100-SXM2-16GB); this device is a Tesla T4"
    )
