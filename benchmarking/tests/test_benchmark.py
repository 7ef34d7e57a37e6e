"""The benchmark command with a real detached process, whose timings are made up."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from benchmarking.management.commands import benchmark
from benchmarking.models import (
    BenchmarkJob,
    IterationTiming,
    LayerTiming,
    Machine,
    MeasurementRun,
)
from benchmarking.tests import fake_probe
from benchmarking.tests.factories import (
    create_architecture,
    create_cpu_machine,
    create_device,
    create_machine,
    create_price,
)
from benchmarking.tests.processes import end_started_probes

pytestmark = pytest.mark.django_db

FAKE_PROBE_PATH = Path(fake_probe.__file__)
# A tiny network: one iteration and three layers for each batch size, in eight passes.
PASSES_PER_BATCH_SIZE = 8


class CommandDeath(BaseException):
    """The command is killed here."""


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Machine:
    settings.VAR_DIR = tmp_path
    settings.BENCHMARK_PYTHON = sys.executable
    for module in ("benchmarking.jobs.steps", "benchmarking.hosts.local_environment"):
        monkeypatch.setattr(f"{module}.PROBE_PATH", FAKE_PROBE_PATH)
    create_architecture(slug="tinynet")
    return create_cpu_machine(slug="local")


@pytest.fixture(autouse=True)
def at_sleep(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Callable[[], None]]]:
    """What happens while the command sleeps; it naps only, for the process to get on."""
    hooks: dict[str, Callable[[], None]] = {}

    def nap(seconds: float) -> None:
        for hook in list(hooks.values()):
            hook()
        real_sleep(min(seconds, 0.01))

    real_sleep = time.sleep
    monkeypatch.setattr(time, "sleep", nap)
    yield hooks


@pytest.fixture(autouse=True)
def no_process_left(tmp_path: Path) -> Iterator[None]:
    yield
    end_started_probes(tmp_path)


def run_benchmark(*arguments: str) -> str:
    output = io.StringIO()
    call_command("benchmark", "--machine", "local", *arguments, stdout=output)
    return output.getvalue().strip()


def refusal(*arguments: str, returncode: int = 2) -> str:
    with pytest.raises(CommandError) as refused:
        call_command("benchmark", *arguments, stdout=io.StringIO())
    assert refused.value.returncode == returncode
    assert "\n" not in str(refused.value)
    return str(refused.value)


def job_folder(tmp_path: Path) -> Path:
    (process,) = tmp_path.glob("runs/*/process")
    return process.parent


def die_when_stored(
    hooks: dict[str, Callable[[], None]], count: int, and_then: Callable[[], None] = lambda: None
) -> None:
    def die() -> None:
        if BenchmarkJob.objects.filter(stored_count__gte=count).exists():
            hooks.clear()
            and_then()
            raise CommandDeath

    hooks["die"] = die


def test_missing_timings_are_announced_and_measured(machine: Machine) -> None:
    create_price(machine=machine, usd_per_hour="36000")

    first, last = run_benchmark("--architectures", "tinynet", "--batch-sizes", "1,2").splitlines()

    assert first.startswith(
        "local · torch 2.14.1 · fp32 · 1 thread: 18 timings are missing, in 8 pieces of work; "
        "expected time "
    )
    assert "expected cost " in first
    assert last == "8 of 8 pieces of work measured. Everything that was planned is measured."
    assert IterationTiming.objects.count() == 2
    assert LayerTiming.objects.count() == 2 * PASSES_PER_BATCH_SIZE
    job = BenchmarkJob.objects.get()
    assert (job.state, job.machine, job.host_kind) == ("succeeded", machine, "local")
    assert MeasurementRun.objects.get().job == job


def test_second_start_finds_nothing_missing() -> None:
    run_benchmark("--batch-sizes", "1")

    assert run_benchmark("--batch-sizes", "1") == (
        "local · torch 2.14.1 · fp32 · 1 thread: nothing is missing (9 are measured or under way)."
    )
    assert BenchmarkJob.objects.count() == 1


def test_rounds_add_timings_of_what_is_measured() -> None:
    run_benchmark("--batch-sizes", "1")

    assert "9 timings are missing (9 are measured" in run_benchmark(
        "--batch-sizes", "1", "--rounds", "2"
    )
    assert sorted(IterationTiming.objects.values_list("round", flat=True)) == [1, 2]


def test_dry_run_measures_nothing(tmp_path: Path) -> None:
    output = run_benchmark("--batch-sizes", "1-3", "--dry-run")

    assert output.startswith("local · torch 2.14.1 · fp32 · 1 thread: 27 timings are missing")
    assert BenchmarkJob.objects.count() == 0
    assert not (tmp_path / "runs").exists()


def test_probe_is_pinned_to_one_core_with_one_thread() -> None:
    run_benchmark("--batch-sizes", "1", "--max-hours", "2")

    plan = BenchmarkJob.objects.get().plan
    assert plan["cpu_affinity"] == [max(os.sched_getaffinity(0))]
    assert plan["stack"]["threads"] == 1
    assert plan["time_budget_seconds"] == 7200.0


def test_killed_command_is_gone_on_with_and_nothing_measured_twice(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_sleep: dict[str, Callable[[], None]],
) -> None:
    monkeypatch.setenv("FAKE_PROBE_HOLD_AFTER", "3")
    die_when_stored(at_sleep, 3)
    with pytest.raises(CommandDeath):
        run_benchmark("--batch-sizes", "1,2")
    assert BenchmarkJob.objects.get().state == "running"

    # The probe has gone on in the meantime, and finishes while the second start follows it.
    (job_folder(tmp_path) / "go").touch()
    monkeypatch.delenv("FAKE_PROBE_HOLD_AFTER")
    lines = run_benchmark("--batch-sizes", "1,2,4").splitlines()

    assert lines[0].startswith("Going on with the job of ")
    assert lines[0].endswith("which is running with 3 of 8 stored.")
    assert lines[1].startswith("8 of 8 pieces of work measured.")
    assert "9 timings are missing (18 are measured" in lines[2]
    assert lines[3].startswith("4 of 4 pieces of work measured.")
    assert MeasurementRun.objects.count() == 2
    assert IterationTiming.objects.count() == 3
    assert LayerTiming.objects.count() == 3 * PASSES_PER_BATCH_SIZE


def test_killed_probe_is_cleaned_up_and_only_the_rest_is_measured(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_sleep: dict[str, Callable[[], None]],
) -> None:
    monkeypatch.setenv("FAKE_PROBE_HOLD_AFTER", "3")

    def kill_the_probe() -> None:
        pid = int((job_folder(tmp_path) / "process").read_text().split()[0])
        os.killpg(pid, signal.SIGKILL)

    die_when_stored(at_sleep, 3, and_then=kill_the_probe)
    with pytest.raises(CommandDeath):
        run_benchmark("--batch-sizes", "1,2")
    monkeypatch.delenv("FAKE_PROBE_HOLD_AFTER")

    lines = run_benchmark("--batch-sizes", "1,2").splitlines()

    assert lines[1].startswith("3 of 8 pieces of work measured. The probe ended early")
    first_job, second_job = BenchmarkJob.objects.order_by("created_at")
    assert (first_job.state, first_job.reason) == ("failed", "probe_died")
    assert (second_job.state, second_job.planned_count) == ("succeeded", 5)
    assert IterationTiming.objects.count() == 2
    assert LayerTiming.objects.count() == 2 * PASSES_PER_BATCH_SIZE


def test_interrupt_stops_the_probe_and_keeps_what_is_measured(
    monkeypatch: pytest.MonkeyPatch, at_sleep: dict[str, Callable[[], None]], tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_PROBE_HOLD_AFTER", "3")

    def interrupt() -> None:
        if BenchmarkJob.objects.filter(stored_count=3).exists():
            at_sleep.clear()
            os.kill(os.getpid(), signal.SIGINT)

    at_sleep["interrupt"] = interrupt

    message = refusal("--machine", "local", "--batch-sizes", "1,2", returncode=130)

    assert message == (
        "3 of 8 pieces of work measured. "
        "Cancelled; finished timings are kept, a new job measures the rest."
    )
    assert (job_folder(tmp_path) / "exit_code").read_text() == "0\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.delenv("FAKE_PROBE_HOLD_AFTER")
    assert "5 of 5 pieces of work" in run_benchmark("--batch-sizes", "1,2")


def test_second_interrupt_leaves_at_once_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, at_sleep: dict[str, Callable[[], None]], tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_PROBE_HOLD_AFTER", "3")

    def interrupt_twice() -> None:
        if BenchmarkJob.objects.filter(stored_count=3).exists():
            at_sleep.clear()
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    at_sleep["interrupt"] = interrupt_twice

    assert refusal("--machine", "local", "--batch-sizes", "1", returncode=130) == (
        "Interrupted; the same command goes on from here."
    )
    (job_folder(tmp_path) / "go").touch()
    assert run_benchmark("--batch-sizes", "1").endswith("(9 are measured or under way).")
    assert MeasurementRun.objects.count() == 1


def test_detached_job_is_left_to_the_worker(
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    rung: list[tuple[uuid.UUID, float]] = []
    monkeypatch.setattr(
        "benchmarking.tasks.ring_for_job", lambda job_id, delay: rung.append((job_id, delay))
    )

    with django_capture_on_commit_callbacks(execute=True):
        output = run_benchmark("--batch-sizes", "1", "--detach")

    job = BenchmarkJob.objects.get()
    assert job.state == "queued"
    assert rung == [(job.pk, 0.0)]
    assert output.endswith(f"Job {job.pk} is queued; the worker measures it.")
    # A second request adds only what is not under way.
    assert run_benchmark("--batch-sizes", "1", "--detach").splitlines() == [
        f"Job {job.pk} of this machine is Queued.",
        "local · torch 2.14.1 · fp32 · 1 thread: nothing is missing (9 are measured or under way).",
    ]


def test_long_job_is_confirmed_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "ASK_ABOVE_SECONDS", 0.0)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: "n")

    assert refusal("--machine", "local", "--batch-sizes", "1", returncode=1) == (
        "Nothing was measured."
    )
    assert BenchmarkJob.objects.count() == 0
    assert "4 of 4" in run_benchmark("--batch-sizes", "1", "--yes")


# Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--machine", "lokal"), "unknown machine 'lokal' (did you mean local?)"),
        (
            ("--machine", "\udcff"),
            "unknown machine '?'; /machines/ and the admin list the known ones",
        ),
        (
            ("--machine", "local", "--architectures", "\udcff"),
            "unknown architecture '?'; /architectures/ lists the known ones",
        ),
        (
            ("--machine", "local", "--architectures", " ,"),
            "--architectures names CNNs, separated by commas; leave it out for all of them.",
        ),
        (
            ("--machine", "local", "--architectures", "tinynett"),
            "unknown architecture 'tinynett' (did you mean tinynet?)",
        ),
        (
            ("--machine", "local", "--architectures", "tinynet", "--image-size", "99"),
            "tinynet is not known at 99 px; known are 32 px",
        ),
        (("--machine", "local", "--image-size", "99"), "no architecture is known at 99 px"),
        (
            ("--machine", "local", "--batch-sizes", "8-4"),
            "Batch sizes are whole numbers from 1 to 65536, as in 1-64 or 8,16,32: a range goes "
            "from small to large (4-8, not 8-4).",
        ),
        (("--machine", "local", "--rounds", "0"), "--rounds is from 1 to 100."),
        (("--machine", "local", "--max-hours", "0"), "--max-hours is above 0 and at most 720."),
        (("--machine", "local", "--max-hours", "nan"), "--max-hours is above 0 and at most 720."),
        (
            ("--machine", "local", "--engine", "dnnmark"),
            "DNNMark measures GPUs; local is measured on its CPU.",
        ),
    ],
)
def test_wrong_options_get_one_line(arguments: tuple[str, ...], message: str) -> None:
    assert refusal(*arguments) == message
    assert BenchmarkJob.objects.count() == 0


def test_precision_that_the_device_lacks_is_refused() -> None:
    assert refusal("--machine", "local", "--precision", "amp").endswith(
        "computes in fp32, not in amp."
    )


def test_interpreter_without_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PROBE_REFUSAL", "torch is not installed for this Python")

    assert refusal("--machine", "local") == (
        f"torch is not installed for this Python ({sys.executable}); "
        "requirements-benchmark.txt brings it"
    )


def test_interpreter_that_is_not_there_is_named(settings: Settings) -> None:
    settings.BENCHMARK_PYTHON = "/nowhere/python"

    assert "the probe cannot be started" in refusal("--machine", "local")


def test_gpu_machine_cannot_be_measured_without_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    create_machine(slug="aws-p3.2xlarge")
    message = "the plan asks for a CUDA device, and torch finds none here"
    monkeypatch.setenv("FAKE_PROBE_REFUSAL", message)

    assert refusal("--machine", "aws-p3.2xlarge") == (
        f"{message}: aws-p3.2xlarge cannot be measured on this computer; run the probe there and "
        "import_measurements what it prints"
    )


def test_gpu_machine_with_another_gpu_is_refused() -> None:
    device = create_device(name="NVIDIA V100", reported_name="Tesla V100-SXM2-16GB")
    create_machine(slug="aws-p3.2xlarge", device=device)

    assert refusal("--machine", "aws-p3.2xlarge") == (
        "aws-p3.2xlarge has a NVIDIA V100 (reported as Tesla V100-SXM2-16GB); "
        "this device is a Tesla T4"
    )


def test_reference_machine_on_another_cpu_is_refused() -> None:
    create_cpu_machine(
        slug="reference-cpu", reported_name="Intel(R) Xeon(R)", cpu_signature="6-167-1"
    )

    assert refusal("--machine", "reference-cpu") == (
        "reference-cpu is pinned to the CPU Intel(R) Xeon(R) (6-167-1); "
        "this one is Test CPU (6-1-1); use --machine local here"
    )
    assert BenchmarkJob.objects.count() == 0


def test_job_that_fails_says_why(
    monkeypatch: pytest.MonkeyPatch, at_sleep: dict[str, Callable[[], None]], tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_PROBE_HOLD_AFTER", "1")

    def spoil() -> None:
        if BenchmarkJob.objects.filter(stored_count=1).exists():
            at_sleep.clear()
            with (job_folder(tmp_path) / "results.jsonl").open("ab") as file:
                file.write(b"garbage\n")

    at_sleep["spoil"] = spoil

    assert refusal("--machine", "local", "--batch-sizes", "1", returncode=1) == (
        "1 of 4 pieces of work measured. The results hold a wrong line; the raw file is kept, "
        "look at it. line 3: is not a JSON object"
    )


def test_names_may_be_repeated_and_separated_by_commas() -> None:
    for slug in ("second", "third"):
        create_architecture(slug=slug, uses=[])

    run_benchmark(
        "--architectures", "third,tinynet", "--architectures", "second", "--batch-sizes", "1"
    )

    work: list[dict[str, Any]] = BenchmarkJob.objects.get().plan["work"]
    assert [item["architecture"] for item in work if item["kind"] == "iteration"] == [
        "third",
        "tinynet",
        "second",
    ]
