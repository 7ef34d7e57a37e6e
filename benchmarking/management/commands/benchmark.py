"""Measure what is missing on a machine."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchmarking.batch_sizes import BatchSizesError, parse_batch_sizes
from benchmarking.hosts.local_environment import ProbeRefusedError, read_local_environment
from benchmarking.hosts.registry import benchmark_python
from benchmarking.jobs.advance import advance_job
from benchmarking.jobs.creation import create_job, measuring_core
from benchmarking.jobs.lifecycle import Reason, State, cancel_job
from benchmarking.jobs.planner import MeasurementPlan, plan_measurements
from benchmarking.jobs.provenance import ProvenanceError, check_provenance, find_machine
from benchmarking.jobs.selection import SelectionError, select_architectures
from benchmarking.models import BenchmarkJob, Device, Machine
from benchmarking.probe.plan import StackRequest, build_plan
from benchmarking.probe.results import EnvironmentLine
from benchmarking.progress import ProgressBar, format_duration
from benchmarking.specs import DeviceKind, Engine, Precision

MAXIMUM_ROUNDS = 100
MAXIMUM_HOURS = 720.0
ASK_ABOVE_SECONDS = 600.0
# Nobody else advances this job as a rule, and a second start should not have to wait for long.
LEASE_SECONDS = 15.0
POLL_SECONDS = 1.0
INTERRUPTED_EXIT_CODE = 130


class Command(BaseCommand):
    help = (
        "Plans the timings that a machine lacks, prints their number, expected time and cost, "
        "and measures them here. Stopping and starting again loses nothing: only what is missing "
        "is measured."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--machine", required=True, metavar="SLUG", help="'local' is this computer."
        )
        parser.add_argument(
            "--architectures",
            action="append",
            default=[],
            metavar="A,B",
            help="Names, separated by commas or repeated; by default every known CNN.",
        )
        parser.add_argument("--batch-sizes", metavar="1-16 or 8,16,32")
        parser.add_argument("--image-size", type=int, metavar="PIXELS")
        parser.add_argument(
            "--precision", choices=[p.value for p in Precision], help="By default the device's own."
        )
        parser.add_argument("--rounds", type=int, default=1, metavar="N")
        parser.add_argument(
            "--engine", choices=[e.value for e in Engine], default=Engine.TORCH.value
        )
        parser.add_argument("--dry-run", action="store_true", help="Print the plan and stop.")
        parser.add_argument(
            "--detach", action="store_true", help="Leave the job to the Celery worker."
        )
        parser.add_argument("--max-hours", type=float, metavar="HOURS")
        parser.add_argument("--yes", action="store_true", help="Do not ask before a long job.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._benchmark(options)
        except KeyboardInterrupt:
            raise CommandError(
                "Interrupted; the same command goes on from here.",
                returncode=INTERRUPTED_EXIT_CODE,
            ) from None

    def _benchmark(self, options: dict[str, Any]) -> None:
        batch_sizes = _check_options(options)
        try:
            machine = find_machine(options["machine"])
            architectures = select_architectures(
                _split_names(options["architectures"]), options["image_size"]
            )
        except (ProvenanceError, SelectionError) as error:
            raise CommandError(str(error), returncode=2) from error
        stack = _stack_request(machine, options["precision"])
        environment = _local_environment(machine, stack)
        if not options["dry_run"]:
            self._finish_earlier_jobs(machine, detach=options["detach"])
        plan = plan_measurements(
            machine=machine,
            stack=environment.stack,
            architectures=architectures,
            batch_sizes=batch_sizes,
            rounds=options["rounds"],
        )
        self._print_plan(machine, environment, plan)
        if not plan.work or options["dry_run"]:
            return
        if not (options["yes"] or self._is_confirmed(plan)):
            raise CommandError("Nothing was measured.", returncode=1)
        job = create_job(
            machine=machine,
            plan=plan,
            stack=stack,
            maximum_hours=options["max_hours"],
            cpu_affinity=measuring_core() if _is_cpu(machine) else None,
            ring=_ring_for_job if options["detach"] else None,
        )
        if options["detach"]:
            self.stdout.write(f"Job {job.pk} is queued; the worker measures it.")
            return
        self._run_to_the_end(job)

    def _print_plan(
        self, machine: Machine, environment: EnvironmentLine, plan: MeasurementPlan
    ) -> None:
        for sentence in plan.left_out:
            self.stdout.write(sentence)
        known = f" ({plan.already_measured} are measured or under way)"
        if not plan.work:
            self.stdout.write(f"{machine} · {environment.stack.label}: nothing is missing{known}.")
            return
        cost = plan.expected_cost_usd
        self.stdout.write(
            f"{machine} · {environment.stack.label}: {plan.timing_count} timings are missing"
            f"{known if plan.already_measured else ''}, in {len(plan.work)} pieces of work; "
            "expected time "
            f"{format_duration(plan.expected_seconds)}"
            + (f", expected cost {cost:.2f} USD" if cost is not None else "")
        )

    def _is_confirmed(self, plan: MeasurementPlan) -> bool:
        if plan.expected_seconds <= ASK_ABOVE_SECONDS or not sys.stdin.isatty():
            return True
        return input("Measure now? [y/N] ").strip().lower() in ("y", "yes")

    def _finish_earlier_jobs(self, machine: Machine, *, detach: bool) -> None:
        """See jobs of this machine through that a killed command has left behind."""
        jobs = BenchmarkJob.objects.filter(
            machine=machine, host_kind=BenchmarkJob.HostKind.LOCAL
        ).exclude(state__in=BenchmarkJob.FINAL_STATES)
        for job in jobs.defer("plan").order_by("created_at"):
            if detach:
                self.stdout.write(f"Job {job.pk} of this machine is {job.get_state_display()}.")
                continue
            self.stdout.write(
                f"Going on with the job of {job.created_at:%Y-%m-%d %H:%M} UTC, which is "
                f"{job.get_state_display().lower()} with {job.stored_count} of "
                f"{job.planned_count} stored."
            )
            self._run_to_the_end(job, failure_ends_command=False)

    def _run_to_the_end(self, job: BenchmarkJob, *, failure_ends_command: bool = True) -> None:
        bar = ProgressBar(
            total=job.planned_count, unit="pieces", expected_seconds=job.expected_seconds
        )
        with bar, _interrupts() as interrupts:
            is_cancelled = False
            while (delay_seconds := _advance(job)) is not None:
                job.refresh_from_db(
                    fields=["state", "stored_count", "failed_count", "current_work"]
                )
                bar.update(job.stored_count + job.failed_count, _doing(job))
                if interrupts and not is_cancelled:
                    cancel_job(job, message="Interrupted at the terminal.")
                    is_cancelled = True
                    continue
                time.sleep(min(delay_seconds, POLL_SECONDS))
        job.refresh_from_db(fields=["state", "reason", "stored_count", "failed_count"])
        summary = (
            f"{job.stored_count} of {job.planned_count} pieces of work measured"
            + (f", {job.failed_count} failed" if job.failed_count else "")
            + f". {Reason(job.reason).outcome.sentence}"
        )
        if job.state == State.CANCELLED and is_cancelled:
            raise CommandError(summary, returncode=INTERRUPTED_EXIT_CODE)
        if job.state == State.FAILED and failure_ends_command:
            raise CommandError(f"{summary} {_last_message(job)}".strip(), returncode=1)
        self.stdout.write(summary)


def _check_options(options: dict[str, Any]) -> tuple[int, ...] | None:
    if options["engine"] == Engine.DNNMARK:
        raise CommandError(
            "DNNMark runs only where a machine image offers it; here --engine torch is allowed.",
            returncode=2,
        )
    if not 1 <= options["rounds"] <= MAXIMUM_ROUNDS:
        raise CommandError(f"--rounds is from 1 to {MAXIMUM_ROUNDS}.", returncode=2)
    hours = options["max_hours"]
    if hours is not None and not 0 < hours <= MAXIMUM_HOURS:
        raise CommandError(f"--max-hours is above 0 and at most {MAXIMUM_HOURS:g}.", returncode=2)
    if options["batch_sizes"] is None:
        return None
    try:
        return parse_batch_sizes(options["batch_sizes"])
    except BatchSizesError as error:
        raise CommandError(str(error), returncode=2) from error


def _split_names(values: Sequence[str]) -> list[str]:
    names = [name.strip() for value in values for name in value.split(",")]
    return list(dict.fromkeys(name for name in names if name))


def _is_cpu(machine: Machine) -> bool:
    return machine.device.kind == Device.Kind.CPU


def _stack_request(machine: Machine, precision: str | None) -> StackRequest:
    device = machine.device.to_spec()
    chosen = Precision(precision) if precision else device.default_precision
    if chosen not in device.precisions:
        raise CommandError(
            f"{machine.device} computes in {', '.join(device.precisions)}, not in {chosen}.",
            returncode=2,
        )
    return StackRequest(precision=chosen)


def _local_environment(machine: Machine, stack: StackRequest) -> EnvironmentLine:
    """What the probe would measure with here, checked against what ``machine`` is."""
    if not Path("/proc/self/stat").exists():
        raise CommandError(
            "Measuring on this computer needs Linux; run the probe by hand and "
            "import_measurements what it prints.",
            returncode=2,
        )
    python = benchmark_python()
    plan = build_plan(
        machine=machine.slug,
        kind=DeviceKind(machine.device.kind),
        stack=stack,
        work=(),
        time_budget_seconds=1.0,
    )
    try:
        environment = read_local_environment(python, plan)
        check_provenance(machine, environment)
    except ProbeRefusedError as error:
        hint = (
            f" ({python}); requirements-benchmark.txt brings it"
            if "torch is not installed" in str(error)
            else f": {machine} cannot be measured on this computer; run the probe there and "
            "import_measurements what it prints"
        )
        raise CommandError(f"{error}{hint}", returncode=2) from error
    except ProvenanceError as error:
        raise CommandError(str(error), returncode=2) from error
    return environment


def _advance(job: BenchmarkJob) -> float | None:
    return advance_job(job.pk, lease_seconds=LEASE_SECONDS, poll_seconds=POLL_SECONDS)


def _ring_for_job(job_id: Any, delay_seconds: float) -> None:
    # Only --detach needs Celery.
    from benchmarking.tasks import ring_for_job

    ring_for_job(job_id, delay_seconds)


def _doing(job: BenchmarkJob) -> str:
    return job.current_work if job.state == State.RUNNING else job.get_state_display().lower()


def _last_message(job: BenchmarkJob) -> str:
    event = job.events.filter(new_state=State.CLEANING).last()
    if event is None or event.message == Reason(job.reason).outcome.sentence:
        return ""
    return event.message.splitlines()[-1] if event.message else ""


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """The Ctrl-C signals so far; the second one ends the command on the spot."""
    received: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    previous = signal.signal(signal.SIGINT, remember)
    try:
        yield received
    finally:
        signal.signal(signal.SIGINT, previous)
