"""A worker that takes the steps of one job on a played EC2."""

from __future__ import annotations

import pytest

from benchmarking.hosts.base import HostFaultError, HostJob
from benchmarking.hosts.ec2.host import Ec2Host
from benchmarking.hosts.ssh import SshTarget
from benchmarking.jobs.lifecycle import State
from benchmarking.jobs.reasons import Reason
from benchmarking.models import BenchmarkJob, CloudInstance
from benchmarking.tests.cloud.fake_api import FakeEc2
from benchmarking.tests.jobs.fake_host import FakeHost


class Worker:
    """Takes the job's steps, each with a host of its own, as each may be another process."""

    def __init__(self, job: BenchmarkJob, cloud: FakeEc2) -> None:
        self.job = job
        self.cloud = cloud
        self.ssh = FakeHost()
        self.targets: list[SshTarget] = []
        self.host_job = HostJob(job.pk)

    @property
    def host(self) -> Ec2Host:
        self.job.refresh_from_db()
        return Ec2Host(self.job, api_of=self.cloud.api_of, ssh_of=self._ssh_of)

    def _ssh_of(self, target: SshTarget) -> FakeHost:
        self.targets.append(target)
        return self.ssh

    def acquire(self) -> bool:
        return self.host.acquire(self.host_job)

    def acquire_until_fault(self) -> HostFaultError:
        with pytest.raises(HostFaultError) as caught:
            self.acquire()
        return caught.value

    def boot(self) -> None:
        """Launch, and let it come up."""
        assert self.acquire()
        (view,) = self.cloud.live
        self.cloud.change(view.id, state="running")
        assert self.host.is_ready(self.host_job)

    def clean_up(self, reason: Reason = Reason.CANCELLED) -> None:
        BenchmarkJob.objects.filter(pk=self.job.pk).update(
            state=State.CLEANING, reason=reason.value
        )

    def release(self) -> bool:
        return self.host.release(self.host_job)


def only_row() -> CloudInstance:
    return CloudInstance.objects.get()


def rows() -> list[tuple[int, str, str]]:
    found = CloudInstance.objects.order_by("id")
    return [(row.attempt, row.zone, row.state) for row in found]
