"""Which host a job's probe runs on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from benchmarking.hosts.base import PROBE_FILE, Host, HostFault, HostFaultError
from benchmarking.hosts.local import LocalHost
from benchmarking.jobs.secrets import SecretUnreadableError, decrypt_key
from benchmarking.models import BenchmarkJob, RemoteHost

if TYPE_CHECKING:
    from benchmarking.hosts.ssh import SshTarget


class UnknownHostError(ValueError):
    """This installation has no such kind of host."""


def host_of(job: BenchmarkJob) -> Host:
    """The host that the job asks for; raises ``UnknownHostError`` if there is none of the kind."""
    if job.host_kind == BenchmarkJob.HostKind.LOCAL:
        return local_host()
    if job.host_kind == BenchmarkJob.HostKind.SSH and job.remote_host is not None:
        # Loads paramiko, for which web processes, which import this module too, have no use.
        from benchmarking.hosts.ssh import SshHost

        return SshHost(ssh_target(job.remote_host))
    if job.host_kind == BenchmarkJob.HostKind.EC2:
        # The same of boto3.
        from benchmarking.hosts.ec2.host import Ec2Host

        return Ec2Host(job)
    raise UnknownHostError(f"this installation cannot run jobs on {job.host_kind}")


def local_host() -> LocalHost:
    """This computer, with the interpreter that has torch."""
    return LocalHost(
        runs_folder=Path(settings.VAR_DIR) / "runs", command=(benchmark_python(), PROBE_FILE)
    )


def ssh_target(remote_host: RemoteHost) -> SshTarget:
    """How to log in to the computer that ``remote_host`` describes, with its key decrypted now.

    Raises ``HostFaultError`` if this process has not the key that it is encrypted with.
    """
    from benchmarking.hosts.ssh import SshTarget

    try:
        login_key = decrypt_key(remote_host.login_key).decode()
    except SecretUnreadableError as error:
        raise HostFaultError(
            HostFault.CONFIGURATION, f"the login key of {remote_host.name}: {error}"
        ) from None
    return SshTarget(
        address=remote_host.address,
        port=remote_host.port,
        user=remote_host.user,
        login_private_key=login_key,
        host_public_key=remote_host.host_public_key,
        python=remote_host.python,
    )


def benchmark_python() -> str:
    """The interpreter that runs the probe: the setting BENCHMARK_PYTHON, else this one."""
    return settings.BENCHMARK_PYTHON or sys.executable
