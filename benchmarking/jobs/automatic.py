"""Benchmarks without anybody's confirmation, for what many people ask for; off by default.

A run launches one job at most, and none while an earlier one is under way. All limits of a job
that somebody confirms hold for it, and only the machines of the setting are launched.
"""

from __future__ import annotations

import logging
from functools import reduce
from operator import or_

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from benchmarking.jobs.automatic_machines import wrong_machines
from benchmarking.jobs.demand import forget_old_requests
from benchmarking.jobs.proposal import (
    HostKind,
    JobRequest,
    JobRequestError,
    default_host_kind,
    find_remote_host,
    propose_job,
    start_job,
)
from benchmarking.jobs.quote import JobRefusedError
from benchmarking.jobs.retry import LONGEST_CHAIN
from benchmarking.jobs.step import Ring
from benchmarking.models import Architecture, BenchmarkJob, Machine, MeasurementRequest

logger = logging.getLogger(__name__)

KEY_PREFIX = "automatic-"
# Each plan takes a moment; what is measured already is asked for again and again.
MOST_PLANS_OF_A_RUN = 5


def launch_automatic_job(ring: Ring | None = None) -> BenchmarkJob | None:
    """Queue a job for what is asked for most and not measured yet, if the settings allow one."""
    if not (settings.AUTOMATIC_BENCHMARKS and settings.BENCHMARKS_ENABLED):
        return None
    for sentence in wrong_machines().sentences:
        logger.error("%s", sentence)
    forget_old_requests()
    unfinished = BenchmarkJob.objects.exclude(state__in=BenchmarkJob.FINAL_STATES)
    if unfinished.filter(_is_automatic()).exists():
        return None
    requests = MeasurementRequest.objects.filter(
        machine__slug__in=settings.AUTOMATIC_BENCHMARK_MACHINES,
        machine__availability=Machine.Availability.CURRENT,
        request_count__gte=settings.AUTOMATIC_BENCHMARK_REQUESTS,
    ).select_related("machine__device")
    for request in requests[:MOST_PLANS_OF_A_RUN]:
        try:
            job = _launch(request, ring)
        except (JobRefusedError, JobRequestError) as error:
            logger.info("no automatic job for %s: %s", request, error)
            continue
        # Whether measured now or before: it takes as many people again to ask once more.
        request.delete()
        if job is not None:
            return job
    return None


def _is_automatic() -> Q:
    """Automatic jobs, and those that go on with one by themselves."""
    steps_back = ("retry_of__" * steps for steps in range(LONGEST_CHAIN))
    conditions = [Q(**{f"{step}idempotency_key__startswith": KEY_PREFIX}) for step in steps_back]
    return reduce(or_, conditions)


def _launch(request: MeasurementRequest, ring: Ring | None) -> BenchmarkJob | None:
    """The job for one CNN on one machine, ``None`` where nothing is missing."""
    machine = request.machine
    hosts = list(machine.remote_hosts.filter(is_enabled=True))
    host_kind = default_host_kind(machine, hosts)
    architecture = Architecture.objects.with_layers().get(pk=request.architecture_id)
    proposal = propose_job(
        JobRequest(
            machine=machine,
            architectures=(architecture,),
            host_kind=host_kind,
            remote_host=find_remote_host(machine) if host_kind == HostKind.SSH else None,
        )
    )
    if not proposal.plan.work:
        return None
    # Once a day at most: what failed today costs nothing more before tomorrow.
    key = f"{KEY_PREFIX}{machine.pk}-{architecture.pk}-{timezone.now():%Y%m%d}"
    job = start_job(proposal, idempotency_key=key, ring=ring)
    return None if job.is_final else job
