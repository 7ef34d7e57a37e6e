"""What somebody asks to have measured, what that would take, and the job that is made of it.

Page, API and command line go the same way: a request becomes a proposal, which is shown, and a
confirmed proposal becomes a job.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from django.conf import settings

from benchmarking.hosts.ec2 import options as ec2_options
from benchmarking.jobs.advance import Ring
from benchmarking.jobs.budget import spending, zero_limit
from benchmarking.jobs.creation import create_job, measuring_core
from benchmarking.jobs.expected_stack import expected_stack
from benchmarking.jobs.planner import MeasurementPlan, plan_measurements
from benchmarking.jobs.quote import JobQuote, JobRefusedError, quote_job
from benchmarking.models import Architecture, BenchmarkJob, Device, Machine, Price, RemoteHost
from benchmarking.money import usd_digits, usd_text
from benchmarking.probe.plan import StackRequest
from benchmarking.specs import Engine, Precision, StackSpec

if TYPE_CHECKING:
    from django.contrib.auth.models import User

HostKind = BenchmarkJob.HostKind

# More than anybody means: a slip of the keyboard is refused before it costs anything.
MAXIMUM_ROUNDS = 100
MAXIMUM_HOURS = 720.0
MAXIMUM_USD = 100_000.0


class JobRequestError(ValueError):
    """What is asked for cannot be measured so; ``field`` says which part of it is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What to measure, where, and at most for how much.

    ``precision`` is the device's own where it is ``None``, ``batch_sizes`` those of the kind of
    device, ``maximum_hours`` a multiple of what is expected; ``maximum_usd`` is for hosts that
    are paid for.
    """

    machine: Machine
    architectures: tuple[Architecture, ...]
    host_kind: HostKind = HostKind.LOCAL
    remote_host: RemoteHost | None = None
    price_kind: Price.Kind = Price.Kind.ON_DEMAND
    batch_sizes: tuple[int, ...] | None = None
    precision: Precision | None = None
    rounds: int = 1
    engine: Engine = Engine.TORCH
    maximum_hours: float | None = None
    maximum_usd: Decimal | None = None

    def digest(self) -> str:
        """SHA-256 of all of it: equal exactly for equal requests."""
        values = [
            self.machine.slug,
            [(one.slug, one.image_size) for one in self.architectures],
            str(self.host_kind),
            self.remote_host.name if self.remote_host else None,
            str(self.price_kind),
            self.batch_sizes,
            self.precision,
            self.rounds,
            str(self.engine),
            self.maximum_hours,
            None if self.maximum_usd is None else str(self.maximum_usd.normalize()),
        ]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan for a request, the stack that it is made for, and what it costs at most.

    ``refusal`` says why no job can be made of it now, and is empty where one can; ``quote`` is
    ``None`` where the price is not known or the money is too little.
    """

    request: JobRequest
    stack_request: StackRequest
    stack: StackSpec
    plan: MeasurementPlan
    quote: JobQuote | None
    refusal: str

    @property
    def is_paid(self) -> bool:
        """Whether a machine is rented for it."""
        return self.request.host_kind == HostKind.EC2

    @property
    def agreed_usd(self) -> Decimal | None:
        """What whoever confirms it agrees to pay at most; ``None`` where nothing is paid."""
        if self.quote is None or self.quote.maximum_usd is None:
            return None
        return self.request.maximum_usd or self.quote.maximum_usd


def default_host_kind(machine: Machine, remote_hosts: Sequence[RemoteHost]) -> HostKind:
    """Where a machine is measured unless told otherwise: over SSH, in the cloud, or here."""
    if any(host.machine_id == machine.pk for host in remote_hosts):
        return HostKind.SSH
    return HostKind.EC2 if machine.provider == ec2_options.PROVIDER else HostKind.LOCAL


def find_remote_host(machine: Machine, name: str = "") -> RemoteHost:
    """The enabled host called ``name`` that is such a machine, or the only one there is.

    Raises ``JobRequestError`` that names those that may be chosen.
    """
    hosts = {host.name: host for host in machine.remote_hosts.filter(is_enabled=True)}
    if name in hosts:
        return hosts[name]
    if not name and len(hosts) == 1:
        return next(iter(hosts.values()))
    known = f"its hosts are {', '.join(hosts)}" if hosts else "the admin adds remote hosts"
    raise JobRequestError(
        "remote_host",
        f"{name} is no enabled host that is a {machine}; {known}."
        if name
        else f"Say which host is the {machine}; {known}.",
    )


def stack_request_of(
    machine: Machine, precision: Precision | None, engine: Engine = Engine.TORCH
) -> StackRequest:
    """What of the software stack a plan chooses; the device's own precision unless told.

    Raises ``JobRequestError`` for a precision that the device or the engine does not have, and
    where a machine does not have the engine.
    """
    device = machine.device.to_spec()
    if engine is Engine.DNNMARK:
        _check_dnnmark(machine, precision)
        return StackRequest(precision=Precision.FP32, engine=engine)
    chosen = precision or device.default_precision
    if chosen not in device.precisions:
        raise JobRequestError(
            "precision",
            f"{machine.device} computes in {', '.join(device.precisions)}, not in {chosen}.",
        )
    return StackRequest(precision=chosen)


def propose_job(request: JobRequest, *, stack: StackSpec | None = None) -> Proposal:
    """Plan what is missing and say what it costs at most; nothing is stored.

    Parameters
    ----------
    stack
        What the machine has, where somebody has looked; else what was last measured there.

    Raises
    ------
    JobRequestError
        If there is no such host for the machine, or it cannot be measured so.
    """
    _check_host(request)
    stack_request = stack_request_of(request.machine, request.precision, request.engine)
    chosen = stack or expected_stack(request.machine, stack_request, request.engine)
    plan = plan_measurements(
        machine=request.machine,
        stack=chosen,
        architectures=request.architectures,
        batch_sizes=request.batch_sizes,
        rounds=request.rounds,
    )
    quote, refusal = _quote(request, plan)
    return Proposal(request, stack_request, chosen, plan, quote, refusal)


def start_job(
    proposal: Proposal,
    *,
    created_by: User | None = None,
    idempotency_key: str | None = None,
    ring: Ring | None = None,
) -> BenchmarkJob:
    """Make the job that was proposed; with a key that is known already, return that job.

    Raises ``JobRefusedError`` where the proposal says that none can be made.
    """
    if proposal.refusal:
        raise JobRefusedError(proposal.refusal)
    request = proposal.request
    return create_job(
        machine=request.machine,
        plan=proposal.plan,
        stack=proposal.stack_request,
        host_kind=request.host_kind,
        remote_host=request.remote_host,
        price_kind=request.price_kind,
        maximum_hours=request.maximum_hours,
        maximum_usd=proposal.agreed_usd,
        idempotency_key=idempotency_key,
        request_digest=request.digest(),
        cpu_affinity=measuring_core() if _is_measured_on_this_cpu(request) else None,
        created_by=created_by,
        ring=ring,
    )


def _check_dnnmark(machine: Machine, precision: Precision | None) -> None:
    if machine.device.kind == Device.Kind.CPU:
        raise JobRequestError("engine", f"DNNMark measures GPUs; {machine} is measured on its CPU.")
    if not machine.dnnmark_root:
        raise JobRequestError(
            "engine",
            f"{machine} has no DNNMark: enter the folder of a built tree on its image as its "
            "DNNMark root in the admin, or use the torch engine.",
        )
    if precision not in (None, Precision.FP32):
        raise JobRequestError("precision", f"DNNMark measures in fp32 only, not in {precision}.")


def _is_measured_on_this_cpu(request: JobRequest) -> bool:
    is_cpu = request.machine.device.kind == Device.Kind.CPU
    return is_cpu and request.host_kind == HostKind.LOCAL


def _quote(request: JobRequest, plan: MeasurementPlan) -> tuple[JobQuote | None, str]:
    """Time and money of ``plan``, and why it cannot be started now, if it cannot."""
    try:
        quote = quote_job(
            machine=request.machine,
            expected_seconds=plan.expected_seconds,
            host_kind=request.host_kind,
            price_kind=request.price_kind,
            maximum_hours=request.maximum_hours,
            maximum_usd=request.maximum_usd,
        )
    except JobRefusedError as error:
        return None, str(error)
    if not settings.BENCHMARKS_ENABLED:
        return quote, "Benchmarks are switched off on this site (BENCHMARKS_ENABLED)."
    if quote.maximum_usd is None:
        return quote, ""
    return quote, _limit_sentence(quote.maximum_usd)


def _limit_sentence(maximum_usd: Decimal) -> str:
    """Why the limits of this site leave no room for a job, empty where they do."""
    if (sentence := zero_limit()) is not None:
        return sentence
    now = spending()
    if maximum_usd > now.left_this_month_usd:
        return (
            f"The job may cost {usd_text(maximum_usd)}, and "
            f"{usd_digits(now.left_this_month_usd)} of this month's "
            f"{usd_text(now.limits.usd_per_month)} are left (BENCHMARK_USD_PER_MONTH)."
        )
    return ""


def _check_host(request: JobRequest) -> None:
    machine = request.machine
    if request.host_kind == HostKind.EC2:
        if machine.provider != ec2_options.PROVIDER:
            raise JobRequestError(
                "host", f"Amazon EC2 has no {machine}; measure it over SSH or locally."
            )
        return
    if request.price_kind != Price.Kind.ON_DEMAND:
        raise JobRequestError("price", "Only a machine that is rented has a price; use host ec2.")
    if request.maximum_usd is not None:
        raise JobRequestError("max_usd", "Nothing is paid there; use host ec2, or leave it out.")
