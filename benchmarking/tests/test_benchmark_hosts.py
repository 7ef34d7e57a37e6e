"""``benchmark --host``: plans and jobs for machines that are rented or reached over SSH."""

from __future__ import annotations

import io
import os
import signal
import time
from collections.abc import Callable
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from benchmarking.models import (
    BenchmarkJob,
    CloudInstance,
    IterationTiming,
    LayerTiming,
    Machine,
    RemoteHost,
)
from benchmarking.tests.factories import (
    create_architecture,
    create_cpu_machine,
    create_device,
    create_machine,
    create_price,
    create_run,
    create_stack,
    create_timings,
    environment_line,
)
from benchmarking.tests.jobs.fake_host import FakeHost
from benchmarking.tests.probe_lines import as_bytes, done_line, iteration_line

pytestmark = pytest.mark.django_db

SLUG = "aws-g4dn.xlarge"
RENT = ("--machine", SLUG, "--host", "ec2", "--batch-sizes", "1")


@pytest.fixture(autouse=True)
def machine(settings: Settings) -> Machine:
    settings.BENCHMARK_USD_PER_MONTH = Decimal(50)
    settings.BENCHMARK_USD_PER_JOB = Decimal(10)
    settings.BENCHMARK_USD_PER_HOUR = Decimal(10)
    settings.EC2_REGIONS = []
    settings.BENCHMARKS_ENABLED = True
    create_architecture(slug="tinynet")
    machine = create_machine(slug=SLUG, device=create_device(reported_name="Tesla T4"))
    create_price(machine=machine, usd_per_hour="0.526")
    return machine


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """The host of every job; a test plays what its probe prints."""
    host = FakeHost()
    monkeypatch.setattr("benchmarking.jobs.advance.host_of", lambda job: host)
    return host


@pytest.fixture
def at_sleep(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], None]]:
    """What happens while the command sleeps, which takes no time; a job's step is then due."""
    hooks: dict[str, Callable[[], None]] = {}

    def nap(seconds: float) -> None:
        BenchmarkJob.objects.update(due_at="2026-01-01T00:00Z")
        for hook in list(hooks.values()):
            hook()

    monkeypatch.setattr(time, "sleep", nap)
    return hooks


def run_benchmark(*arguments: str) -> list[str]:
    output = io.StringIO()
    call_command("benchmark", *arguments, stdout=output)
    return output.getvalue().strip().splitlines()


def refusal(*arguments: str, returncode: int = 2) -> str:
    with pytest.raises(CommandError) as refused:
        call_command("benchmark", *arguments, stdout=io.StringIO())
    assert refused.value.returncode == returncode
    assert "\n" not in str(refused.value)
    return str(refused.value)


# The plan -------------------------------------------------------------------------------------


def test_u10_a_dry_run_says_time_cost_and_maximum_and_starts_nothing() -> None:
    missing, bill = run_benchmark(*RENT, "--dry-run")

    assert missing.startswith(
        f"{SLUG} · torch of unknown version · fp32: 9 timings are missing, in 4 pieces of work; "
        "expected time "
    )
    assert missing.endswith("expected cost 0.04 USD")
    assert bill.startswith("At most 0.")
    assert " USD at 0.526 USD an hour (on-demand, us-east-1, 2026-01-01); it ends at " in bill
    assert BenchmarkJob.objects.count() == 0


def test_a_plan_is_made_with_the_stack_that_was_measured_there_last(machine: Machine) -> None:
    run = create_run(machine=machine, stack=create_stack(cuda_version="12.6"))
    create_timings(run=run, architecture=create_architecture(slug="second"), batch_sizes=[1, 2, 4])

    (line,) = run_benchmark(*RENT, "--architectures", "second", "--dry-run")

    assert line == (
        f"{SLUG} · torch 2.14.1 · fp32 · CUDA 12.6: nothing is missing "
        "(9 are measured or under way)."
    )


def test_money_that_is_too_short_for_all_is_said() -> None:
    bill = run_benchmark(*RENT, "--max-hours", "0.0001", "--dry-run")[1]

    assert bill.endswith(" That is too short for all of it.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--max-usd", "20"), "A job may cost at most 10.00 USD (BENCHMARK_USD_PER_JOB), not"),
        (("--max-usd", "0.1"), "0.10 USD are too little"),
        (("--max-usd", "0"), "--max-usd is above 0 and at most 100000."),
        (("--max-usd", "nan"), "--max-usd is above 0 and at most 100000."),
        (("--max-usd", "much"), "--max-usd is above 0 and at most 100000."),
        (("--price", "spot"), f"No spot price of {SLUG} is known in us-east-1; refresh_prices"),
        (("--remote-host", "lab"), "--remote-host goes with --host ssh."),
    ],
)
def test_what_cannot_be_rented_so_is_refused_in_one_line(
    arguments: tuple[str, ...], message: str
) -> None:
    assert refusal(*RENT, *arguments, "--yes").startswith(message)
    assert BenchmarkJob.objects.count() == 0


def test_machines_that_cannot_be_rented_are_refused() -> None:
    create_machine(slug="aws-old", availability=Machine.Availability.RETIRED)
    create_machine(slug="azure-one", provider="azure")

    assert refusal("--machine", "aws-old", "--host", "ec2").startswith(
        "aws-old cannot be rented any more"
    )
    assert refusal("--machine", "azure-one", "--host", "ec2").startswith(
        "Amazon EC2 has no azure-one"
    )


def test_r20_a_limit_of_zero_is_named(settings: Settings) -> None:
    settings.BENCHMARK_USD_PER_MONTH = Decimal(0)

    assert refusal(*RENT, "--yes").startswith("BENCHMARK_USD_PER_MONTH is 0")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--price", "spot"), "Only a machine that is rented has a price; use host ec2."),
        (("--max-usd", "3"), "Nothing is paid there; use host ec2, or leave it out."),
    ],
)
def test_money_is_for_rented_machines(arguments: tuple[str, ...], message: str) -> None:
    RemoteHost.objects.create(
        name="lab",
        machine=Machine.objects.get(slug=SLUG),
        address="10.0.0.7",
        user="me",
        host_public_key="ssh-ed25519 AAAA",
        login_key=b"",
    )

    assert refusal("--machine", SLUG, "--host", "ssh", *arguments) == message


# The start ------------------------------------------------------------------------------------


def test_u10_nothing_is_rented_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(*RENT) == "This rents a machine: --yes starts it where nobody can be asked."

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: "")
    assert refusal(*RENT, returncode=1) == "Nothing was measured."
    assert BenchmarkJob.objects.count() == 0


def test_a_rented_machine_is_left_to_the_worker(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    rung: list[object] = []
    monkeypatch.setattr("benchmarking.tasks.ring_for_job", lambda *call: rung.append(call))

    with django_capture_on_commit_callbacks(execute=True):
        *_, last = run_benchmark(*RENT, "--max-usd", "0.75", "--yes")

    job = BenchmarkJob.objects.get()
    assert last == (
        f"Job {job.pk} is queued; the worker measures it. Watch it on the page /jobs/{job.pk}/."
    )
    assert (job.machine, job.host_kind, job.maximum_usd) == (machine, "ec2", Decimal("0.75"))
    assert rung == [(job.pk, 0.0)]
    assert run_benchmark(*RENT, "--yes")[0] == f"Job {job.pk} of this machine is Queued."


def test_a_host_of_ones_own_is_chosen_by_its_name_or_is_the_only_one(machine: Machine) -> None:
    over_ssh = ("--machine", SLUG, "--host", "ssh", "--batch-sizes", "1")
    assert refusal(*over_ssh) == (f"Say which host is the {SLUG}; the admin adds remote hosts.")
    for name in ("lab", "cellar"):
        RemoteHost.objects.create(
            name=name,
            machine=machine,
            address="10.0.0.7",
            user="me",
            host_public_key="ssh-ed25519 AAAA",
            login_key=b"",
        )
    assert refusal(*over_ssh) == f"Say which host is the {SLUG}; its hosts are cellar, lab."
    assert refusal(*over_ssh, "--remote-host", "moon") == (
        f"moon is no enabled host that is a {SLUG}; its hosts are cellar, lab."
    )

    run_benchmark(*over_ssh, "--remote-host", "lab")
    job = BenchmarkJob.objects.get()
    assert (job.host_kind, str(job.remote_host), job.maximum_usd) == ("ssh", "lab", None)


# Following it ---------------------------------------------------------------------------------


def environment_of_the_machine() -> dict[str, object]:
    stack = {
        "engine": "torch",
        "framework_version": "2.14.1",
        "precision": "fp32",
        "cuda_version": "12.6",
        "cudnn_version": "",
        "memory_format": "contiguous",
        "cudnn_benchmark": False,
        "threads": 1,
    }
    return environment_line(machine=SLUG, stack=stack, gpu={"name": "Tesla T4"})


def test_a_followed_job_is_advanced_from_here_to_its_end(
    host: FakeHost, at_sleep: dict[str, Callable[[], None]]
) -> None:
    def measure() -> None:
        if host.is_running:
            at_sleep.clear()
            lines = (environment_of_the_machine(), iteration_line(batch_size=1), done_line())
            host.say(as_bytes(*lines))
            host.end()

    at_sleep["measure"] = measure

    *_, last = run_benchmark(*RENT, "--yes", "--follow")

    assert last == ("1 of 4 pieces of work measured. Everything that was planned is measured.")
    assert (IterationTiming.objects.count(), LayerTiming.objects.count()) == (1, 0)
    assert host.is_released


def test_r6_ctrl_c_cancels_and_waits_until_the_machine_is_gone(
    host: FakeHost,
    at_sleep: dict[str, Callable[[], None]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt() -> None:
        if host.is_running and not host.stops:
            rent_an_instance()
            os.kill(os.getpid(), signal.SIGINT)

    at_sleep["interrupt"] = interrupt

    message = refusal(*RENT, "--yes", "--follow", returncode=130)

    job = BenchmarkJob.objects.get()
    assert (job.state, host.is_released) == ("cancelled", True)
    assert capsys.readouterr().err == (
        "Cancelling; this waits until the rented machine is gone. Ctrl-C again leaves that to "
        "the worker.\n"
    )
    assert message == (
        "0 of 4 pieces of work measured. Cancelled; finished timings are kept, a new job "
        "measures the rest. The rented machine is gone."
    )


def test_a_second_ctrl_c_says_that_the_machine_is_still_paid_for(
    host: FakeHost, at_sleep: dict[str, Callable[[], None]]
) -> None:
    def interrupt_twice() -> None:
        if host.is_running:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    at_sleep["interrupt"] = interrupt_twice

    message = refusal(*RENT, "--yes", "--follow", returncode=130)

    job = BenchmarkJob.objects.get()
    assert message == (
        "Interrupted; the rented machine is paid for until a worker has ended it. "
        f"The page /jobs/{job.pk}/ and list_instances say when it is gone."
    )
    assert job.state != "cancelled"


def rent_an_instance() -> None:
    """The row of a machine that was rented for the only job, and is gone by now."""
    job = BenchmarkJob.objects.get()
    CloudInstance.objects.create(
        job=job,
        attempt=1,
        state=CloudInstance.State.TERMINATED,
        region="us-east-1",
        instance_type="g4dn.xlarge",
        client_token="token",
        request={},
        user_data_sha256="0" * 64,
        usd_per_hour=Decimal("0.526"),
        reserved_usd=Decimal("0.62"),
        expires_at=job.deadline,
    )


def test_local_jobs_keep_their_way(settings: Settings) -> None:
    create_cpu_machine(slug="local")
    settings.BENCHMARK_PYTHON = "/nowhere/python"

    assert "the probe cannot be started" in refusal("--machine", "local")
