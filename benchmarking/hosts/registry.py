"""Which host a job's probe runs on."""

from __future__ import annotations

import sys
from pathlib import Path

from django.conf import settings

from benchmarking.hosts.base import PROBE_FILE, Host
from benchmarking.hosts.local import LocalHost
from benchmarking.models import BenchmarkJob


class UnknownHostError(ValueError):
    """This installation has no such kind of host."""


def host_of(job: BenchmarkJob) -> Host:
    """The host that the job asks for; raises ``UnknownHostError`` if there is none of the kind."""
    if job.host_kind == BenchmarkJob.HostKind.LOCAL:
        return local_host()
    if job.host_kind == BenchmarkJob.HostKind.EC2:
        # Web processes, which import this module too, have no use for boto3.
        from benchmarking.hosts.ec2.host import Ec2Host

        return Ec2Host(job)
    raise UnknownHostError(f"this installation cannot run jobs on {job.host_kind}")


def local_host() -> LocalHost:
    """This computer, with the interpreter that has torch."""
    return LocalHost(
        runs_folder=Path(settings.VAR_DIR) / "runs", command=(benchmark_python(), PROBE_FILE)
    )


def benchmark_python() -> str:
    """The interpreter that runs the probe: the setting BENCHMARK_PYTHON, else this one."""
    return settings.BENCHMARK_PYTHON or sys.executable
