"""Jobs on a fake machine that answers over a real SSH server."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarking.jobs.advance import advance_job
from benchmarking.jobs.creation import create_job
from benchmarking.jobs.planner import plan_measurements
from benchmarking.jobs.secrets import encrypt_key
from benchmarking.models import BenchmarkJob, Machine, RemoteHost
from benchmarking.probe.plan import StackRequest
from benchmarking.tests import factories
from benchmarking.tests.sshd import FakeMachine

WAIT_SECONDS = 120.0


def create_remote_host(
    computer: FakeMachine, machine: Machine | None = None, **values: Any
) -> RemoteHost:
    """``computer`` as an operator enters it."""
    defaults = {
        "name": f"box-{computer.port}",
        "address": computer.address,
        "port": computer.port,
        "user": computer.user,
        "host_public_key": computer.host_keys.public_key,
        "login_key": encrypt_key(computer.login_keys.private_key.encode()),
        "login_public_key": computer.login_keys.public_key,
    }
    return RemoteHost.objects.create(
        machine=machine or factories.create_cpu_machine(slug="box"), **{**defaults, **values}
    )


def create_ssh_job(remote_host: RemoteHost) -> BenchmarkJob:
    """Queue a job that measures a tiny network at one batch size."""
    architecture = factories.create_architecture()
    plan = plan_measurements(
        machine=remote_host.machine,
        stack=factories.create_stack().to_spec(),
        architectures=[architecture],
        batch_sizes=[1],
    )
    return create_job(
        machine=remote_host.machine,
        plan=plan,
        stack=StackRequest(),
        host_kind=BenchmarkJob.HostKind.SSH,
        remote_host=remote_host,
        maximum_hours=1.0,
    )


def advance_until(job: BenchmarkJob, condition: Callable[[BenchmarkJob], bool]) -> BenchmarkJob:
    """Take steps, each with a host of its own, until the job as stored is as asked for."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        stored = BenchmarkJob.objects.get(pk=job.pk)
        if condition(stored):
            return stored
        assert time.monotonic() < end, f"still {stored.state} {stored.reason}"
        assert not stored.is_final, f"{stored.state} {stored.reason}"
        advance_job(job.pk, poll_seconds=0.01)
        BenchmarkJob.objects.filter(pk=job.pk).update(due_at=stored.created_at)


def finish(job: BenchmarkJob) -> BenchmarkJob:
    """The job after its last step."""
    return advance_until(job, lambda stored: stored.is_final)
