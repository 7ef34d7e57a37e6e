"""Measure what is missing on a machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchmarking.hosts.local_environment import ProbeRefusedError, read_local_environment
from benchmarking.hosts.registry import benchmark_python
from benchmarking.jobs.proposal import (
    HostKind,
    JobRequest,
    JobRequestError,
    Proposal,
    propose_job,
    stack_request_of,
    start_job,
)
from benchmarking.jobs.provenance import ProvenanceError, check_provenance
from benchmarking.jobs.quote import JobQuote, JobRefusedError
from benchmarking.management.benchmark_options import (
    add_benchmark_arguments,
    read_request,
)
from benchmarking.management.following_jobs import INTERRUPTED_EXIT_CODE, follow_job
from benchmarking.models import BenchmarkJob
from benchmarking.money import usd_text
from benchmarking.probe.plan import build_plan
from benchmarking.progress import format_duration
from benchmarking.specs import DeviceKind, Engine, StackSpec

ASK_ABOVE_SECONDS = 600.0


class Command(BaseCommand):
    help = (
        "Plans the timings that a machine lacks, prints their number, expected time and cost, "
        "and measures them: here, over SSH, or on a machine that is rented for it. Stopping and "
        "starting again loses nothing: only what is missing is measured."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_benchmark_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._benchmark(options)
        except KeyboardInterrupt:
            raise CommandError(
                "Interrupted; the same command goes on from here.",
                returncode=INTERRUPTED_EXIT_CODE,
            ) from None
        except (JobRequestError, JobRefusedError) as error:
            raise CommandError(str(error), returncode=2) from error

    def _benchmark(self, options: dict[str, Any]) -> None:
        request = read_request(options)
        is_local = request.host_kind == HostKind.LOCAL
        is_followed = options["follow"] or (is_local and not options["detach"])
        # A plan alone needs nothing of this computer, which may not be the machine with DNNMark.
        is_asked_here = is_local and not (options["dry_run"] and request.engine == Engine.DNNMARK)
        stack = _local_stack(request) if is_asked_here else None
        if not options["dry_run"]:
            self._finish_earlier_jobs(request, is_followed=is_followed)
        proposal = propose_job(request, stack=stack)
        self._print_plan(proposal)
        if not proposal.plan.work:
            return
        if proposal.refusal:
            raise CommandError(proposal.refusal, returncode=2)
        if options["dry_run"]:
            return
        if not (options["yes"] or _is_confirmed(proposal)):
            raise CommandError("Nothing was measured.", returncode=1)
        job = start_job(proposal, ring=None if is_followed else _ring_for_job)
        if is_followed:
            follow_job(job, self.stdout.write)
            return
        self.stdout.write(
            f"Job {job.pk} is queued; the worker measures it."
            + ("" if is_local else f" Watch it on the page /jobs/{job.pk}/.")
        )

    def _print_plan(self, proposal: Proposal) -> None:
        plan = proposal.plan
        for sentence in plan.left_out:
            self.stdout.write(sentence)
        known = f" ({plan.already_measured} are measured or under way)"
        subject = f"{proposal.request.machine} · {proposal.stack.label}"
        if not plan.work:
            self.stdout.write(f"{subject}: nothing is missing{known}.")
            return
        self.stdout.write(
            f"{subject}: {plan.timing_count} timings are missing"
            f"{known if plan.already_measured else ''}, in {len(plan.work)} pieces of work; "
            f"expected time {format_duration(plan.expected_seconds)}{_expected_cost(proposal)}"
        )
        if proposal.is_paid and proposal.quote is not None:
            self.stdout.write(_bill(proposal, proposal.quote))

    def _finish_earlier_jobs(self, request: JobRequest, *, is_followed: bool) -> None:
        """See jobs of this machine through that a killed command has left behind."""
        jobs = BenchmarkJob.objects.filter(
            machine=request.machine, host_kind=request.host_kind
        ).exclude(state__in=BenchmarkJob.FINAL_STATES)
        for job in jobs.defer("plan").order_by("created_at"):
            if not is_followed:
                self.stdout.write(f"Job {job.pk} of this machine is {job.get_state_display()}.")
                continue
            self.stdout.write(
                f"Going on with the job of {job.created_at:%Y-%m-%d %H:%M} UTC, which is "
                f"{job.get_state_display().lower()} with {job.stored_count} of "
                f"{job.planned_count} stored."
            )
            follow_job(job, self.stdout.write, failure_ends_command=False)


def _local_stack(request: JobRequest) -> StackSpec:
    """What the probe would measure with here, checked against what the machine is."""
    if not Path("/proc/self/stat").exists():
        raise CommandError(
            "Measuring on this computer needs Linux; run the probe by hand and "
            "import_measurements what it prints.",
            returncode=2,
        )
    machine = request.machine
    python = benchmark_python()
    plan = build_plan(
        machine=machine.slug,
        kind=DeviceKind(machine.device.kind),
        stack=stack_request_of(machine, request.precision, request.engine),
        work=(),
        time_budget_seconds=1.0,
        dnnmark_root=machine.dnnmark_root,
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
    return environment.stack


def _expected_cost(proposal: Proposal) -> str:
    quote = proposal.quote
    if proposal.is_paid:
        cost = None if quote is None else quote.expected_usd
    else:
        cost = proposal.plan.expected_cost_usd
    return "" if cost is None else f", expected cost {usd_text(cost)}"


def _bill(proposal: Proposal, quote: JobQuote) -> str:
    price, agreed_usd = quote.price, proposal.agreed_usd
    assert price is not None and agreed_usd is not None
    origin = f"{price.kind}, {price.region}, {price.as_of or 'undated'}"
    longest = format_duration(float(quote.maximum_hours) * 3600)
    hourly = price.usd_per_hour.normalize()
    return (
        f"At most {usd_text(agreed_usd)} at {hourly:f} USD an hour ({origin}); "
        f"it ends at the latest {longest} after its start."
        + (" That is too short for all of it." if quote.is_cut_short else "")
    )


def _is_confirmed(proposal: Proposal) -> bool:
    is_long = proposal.plan.expected_seconds > ASK_ABOVE_SECONDS
    if sys.stdin.isatty():
        return not (is_long or proposal.is_paid) or _says_yes("Measure now? [y/N] ")
    if proposal.is_paid:
        raise CommandError(
            "This rents a machine: --yes starts it where nobody can be asked.", returncode=2
        )
    return True


def _says_yes(question: str) -> bool:
    return input(question).strip().lower() in ("y", "yes")


def _ring_for_job(job_id: Any, delay_seconds: float) -> None:
    # Only a job that is left to the worker needs Celery.
    from benchmarking.tasks import ring_for_job

    ring_for_job(job_id, delay_seconds)
