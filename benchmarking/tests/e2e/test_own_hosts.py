"""Jobs on hosts that an operator brings: both engines, over a real SSH server."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from django.core.management import call_command

from benchmarking.models import (
    BenchmarkJob,
    CloudInstance,
    FailedTiming,
    IterationTiming,
    LayerTiming,
    MeasurementRun,
    RemoteHost,
)
from benchmarking.specs import ConvolutionSpec, ConvolutionUse
from benchmarking.tests import factories
from benchmarking.tests.jobs.over_ssh import create_remote_host
from benchmarking.tests.probe.dnnmark_stub import build_tree
from benchmarking.tests.sshd import FakeMachine

pytestmark = [pytest.mark.e2e, pytest.mark.sshd, pytest.mark.django_db]

TWO_LAYERS_OF_SQUEEZENET = (
    ConvolutionUse(
        ConvolutionSpec(3, 224, 224, 64, 3, 3, 2, 2, 0, 0, bias=True),
        count=1,
        needs_input_gradient=False,
    ),
    ConvolutionUse(ConvolutionSpec(64, 55, 55, 16, 1, 1, 1, 1, 0, 0, bias=True), count=1),
)
PASSES = 2 + 3


def measure(remote_host: RemoteHost, *arguments: str) -> BenchmarkJob:
    """Run the command as an operator does, and return its job."""
    call_command(
        *("benchmark", "--machine", remote_host.machine.slug, "--host", "ssh"),
        *("--architectures", "squeezenet1_1", "--batch-sizes", "1", "--follow", "--yes"),
        *arguments,
        stdout=io.StringIO(),
        stderr=io.StringIO(),
    )
    return BenchmarkJob.objects.get()


@pytest.mark.torch
def test_real_probe_on_a_host_of_ones_own(tmp_path: Path) -> None:
    factories.create_architecture(
        slug="squeezenet1_1", image_size=224, uses=TWO_LAYERS_OF_SQUEEZENET
    )
    with FakeMachine(tmp_path / "computer", probe=None) as computer:
        job = measure(create_remote_host(computer))
        assert computer.program_count == 0

    assert (job.state, job.reason, job.host_kind) == ("succeeded", "completed", "ssh")
    assert (job.stored_count, job.failed_count) == (3, 0)
    run = MeasurementRun.objects.get()
    assert (run.job, run.stack.engine) == (job, "torch")
    timings = LayerTiming.objects.filter(run=run)
    assert timings.count() == PASSES
    assert all(0.0 < timing.milliseconds < 10_000.0 for timing in timings)
    iteration = IterationTiming.objects.get(run=run)
    assert (iteration.architecture.slug, iteration.batch_size) == ("squeezenet1_1", 1)
    # The whole network takes longer than its fastest layer.
    assert iteration.milliseconds > min(timing.milliseconds for timing in timings)
    assert CloudInstance.objects.count() == 0


def test_dnnmark_on_a_host_of_ones_own(tmp_path: Path) -> None:
    root = build_tree(tmp_path / "DNNMark")
    factories.create_architecture(
        slug="squeezenet1_1", image_size=224, uses=TWO_LAYERS_OF_SQUEEZENET
    )
    device = factories.create_device(slug="t4", name="T4", reported_name="Tesla T4")
    machine = factories.create_machine(slug="lab-t4", device=device, dnnmark_root=str(root))
    folder = tmp_path / "computer"
    path = os.pathsep.join((f"{root / 'bin'}", f"{folder / 'bin'}", os.environ["PATH"]))
    with FakeMachine(folder, probe=None, environment={"PATH": path}) as computer:
        job = measure(create_remote_host(computer, machine), "--engine", "dnnmark")
        assert computer.program_count == 0

    assert (job.state, job.reason, job.engine) == ("succeeded", "completed", "dnnmark")
    run = MeasurementRun.objects.get()
    assert (run.job, run.stack.engine, run.machine) == (job, "dnnmark", machine)
    assert LayerTiming.objects.filter(run=run).count() == PASSES
    assert (IterationTiming.objects.count(), FailedTiming.objects.count()) == (0, 0)
