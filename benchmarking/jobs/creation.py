"""Making a job of a plan."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction
from django.utils import timezone

from benchmarking.jobs.budget import zero_limit
from benchmarking.jobs.claims import claim_work
from benchmarking.jobs.deadlines import LONGEST_QUEUE_TIME
from benchmarking.jobs.lifecycle import write_event
from benchmarking.jobs.planner import MeasurementPlan
from benchmarking.jobs.quote import JobQuote, JobRefusedError, quote_job
from benchmarking.jobs.step import Ring
from benchmarking.models import BenchmarkJob, Machine, Price, RemoteHost
from benchmarking.money import usd_text
from benchmarking.probe.plan import StackRequest, Work, build_plan
from benchmarking.specs import DeviceKind

if TYPE_CHECKING:
    from django.contrib.auth.models import User

HostKind = BenchmarkJob.HostKind

_KEY_LENGTH = BenchmarkJob._meta.get_field("idempotency_key").max_length or 0


def create_job(
    *,
    machine: Machine,
    plan: MeasurementPlan,
    stack: StackRequest,
    host_kind: str = HostKind.LOCAL,
    remote_host: RemoteHost | None = None,
    price_kind: str = Price.Kind.ON_DEMAND,
    maximum_hours: float | None = None,
    maximum_usd: Decimal | None = None,
    cpu_affinity: Sequence[int] | None = None,
    created_by: User | None = None,
    idempotency_key: str | None = None,
    request_digest: str = "",
    retry_of: BenchmarkJob | None = None,
    due_at: datetime | None = None,
    ring: Ring | None = None,
) -> BenchmarkJob:
    """Queue a job that measures what ``plan`` found missing and no other job has claimed.

    Parameters
    ----------
    maximum_hours
        The probe's time budget; by default three times what the plan is expected to take.
    maximum_usd
        What is agreed to at most for a machine that is paid for; it cuts the time budget.
    idempotency_key
        Of a form that may be sent twice: the same key gives the same job.
    request_digest
        Of what was asked for with that key; kept, so that another question can be told from it.
    retry_of
        The job that this one goes on with.
    due_at
        When it may start, by default now.
    ring
        Told of the job once it is committed; without it the sweeper finds it.

    Raises
    ------
    JobRefusedError
        If the machine cannot be rented, a limit forbids it, or other jobs measure all of it.
    """
    if idempotency_key is not None:
        if not 0 < len(idempotency_key) <= _KEY_LENGTH:
            raise JobRefusedError(f"An idempotency key has 1 to {_KEY_LENGTH} characters.")
        if (existing := _job_of_key(idempotency_key)) is not None:
            return existing
    _check_host(host_kind, remote_host, machine)
    if not plan.work:
        raise JobRefusedError(f"Nothing is missing on {machine}.")
    quote = quote_job(
        machine=machine,
        expected_seconds=plan.expected_seconds,
        host_kind=host_kind,
        price_kind=price_kind,
        maximum_hours=maximum_hours,
        maximum_usd=maximum_usd,
    )
    now = timezone.now()
    job = BenchmarkJob(
        machine=machine,
        host_kind=host_kind,
        remote_host=remote_host,
        price_kind=price_kind,
        maximum_usd=(maximum_usd or quote.maximum_usd) if quote.maximum_usd else None,
        engine=stack.engine.value,
        due_at=due_at or now,
        # Its turn may be long in coming; measuring then gets a deadline of its own.
        deadline=now + LONGEST_QUEUE_TIME,
        created_by=created_by,
        idempotency_key=idempotency_key,
        request_digest=request_digest,
        retry_of=retry_of,
        attempt=1 if retry_of is None else retry_of.attempt + 1,
        interruptions=0 if retry_of is None else retry_of.interruptions,
    )

    def set_work(work: Sequence[Work]) -> None:
        job.planned_count = len(work)
        job.expected_seconds = plan.expected_seconds * len(work) / len(plan.work)
        job.plan = build_plan(
            machine=machine.slug,
            kind=DeviceKind(machine.device.kind),
            stack=stack,
            work=work,
            time_budget_seconds=quote.time_budget_seconds,
            cpu_affinity=cpu_affinity,
            dnnmark_root=machine.dnnmark_root,
        )

    set_work(plan.work)
    try:
        with transaction.atomic():
            job.save(force_insert=True)
            claimed = claim_work(job, plan.work, stack)
            if not claimed:
                raise JobRefusedError(
                    "Everything that is missing is being measured by other jobs already."
                )
            if len(claimed) < len(plan.work):
                set_work(claimed)
                job.save(update_fields=["plan", "planned_count", "expected_seconds"])
            write_event(job, new_state=job.state, message=_queued_message(job, plan, quote))
            if ring is not None:
                transaction.on_commit(lambda: ring(job.pk, 0.0), robust=True)
    except IntegrityError:
        # The same form was sent a second time at the same moment.
        existing = None if idempotency_key is None else _job_of_key(idempotency_key)
        if existing is None:
            raise
        return existing
    return job


def measuring_core() -> list[int] | None:
    """The core that a probe on this computer is pinned to, ``None`` where that cannot be done.

    The last of those that this process may use: the first one serves most interrupts.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None
    return [max(os.sched_getaffinity(0))]


def _job_of_key(key: str) -> BenchmarkJob | None:
    return BenchmarkJob.objects.filter(idempotency_key=key).first()


def _check_host(host_kind: str, remote_host: RemoteHost | None, machine: Machine) -> None:
    if host_kind == HostKind.SSH:
        if remote_host is None:
            raise JobRefusedError("A job over SSH needs a remote host; the admin lists them.")
        if not remote_host.is_enabled:
            raise JobRefusedError(f"The remote host {remote_host} is switched off in the admin.")
        if remote_host.machine_id != machine.pk:
            raise JobRefusedError(
                f"The remote host {remote_host} is a {remote_host.machine}, not a {machine}."
            )
    elif remote_host is not None:
        raise JobRefusedError(f"A job on {HostKind(host_kind).label} has no remote host.")
    if host_kind == HostKind.EC2 and (sentence := zero_limit()) is not None:
        raise JobRefusedError(sentence)


def _queued_message(job: BenchmarkJob, plan: MeasurementPlan, quote: JobQuote) -> str:
    parts = [f"{job.planned_count} pieces of work planned."]
    if left_out := len(plan.work) - job.planned_count:
        parts.append(f"{left_out} are being measured by other jobs.")
    if job.maximum_usd is not None:
        parts.append(f"It costs at most {usd_text(job.maximum_usd)}.")
    return " ".join(parts)
