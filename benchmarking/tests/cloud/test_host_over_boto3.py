"""The host over boto3 against a played EC2: real requests, real errors, lost answers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from benchmarking.hosts.base import HostFault, HostFaultError, HostJob, HostUnavailableError
from benchmarking.hosts.ec2.host import Ec2Host
from benchmarking.hosts.ssh import SshTarget
from benchmarking.jobs.lifecycle import State
from benchmarking.jobs.secrets import read_job_secret
from benchmarking.models import BenchmarkJob, CloudInstance
from benchmarking.tests.cloud.front import CloudFront
from benchmarking.tests.cloud.launches import Launch
from benchmarking.tests.cloud.worker import only_row, rows
from benchmarking.tests.jobs.fake_host import FakeHost

pytestmark = pytest.mark.django_db


@pytest.fixture
def host_job(job: BenchmarkJob) -> HostJob:
    return HostJob(job.pk)


@pytest.fixture
def targets() -> list[SshTarget]:
    return []


@pytest.fixture
def host(front: CloudFront, job: BenchmarkJob, targets: list[SshTarget]) -> Ec2Host:
    def ssh_of(target: SshTarget) -> FakeHost:
        targets.append(target)
        return FakeHost()

    return Ec2Host(job, ssh_of=ssh_of)


def test_r7_r8_machine_gets_the_keys_of_its_job_and_nobody_elses(
    front: CloudFront, host: Ec2Host, host_job: HostJob, job: BenchmarkJob, targets: list[SshTarget]
) -> None:
    started: list[Launch] = []
    front.on_launch = started.append
    front.new_boot_calls = 1
    assert host.acquire(host_job)

    (launch,) = started
    keys = read_job_secret(job)
    assert launch.host_public_key == keys.host_public_key
    assert launch.host_private_key == keys.host_private_key
    assert launch.authorized_key == keys.login_public_key
    assert keys.login_private_key.encode() not in launch.user_data
    assert (launch.user, launch.job_id) == ("ubuntu", str(job.pk))
    expires_in = only_row().expires_at - timezone.now()
    assert launch.shutdown_minutes - 1 <= expires_in / timedelta(minutes=1)
    # Nothing that is kept, shown or sent elsewhere holds the secret part.
    assert "UserData" not in only_row().request

    assert not host.is_ready(host_job)
    assert host.is_ready(host_job)
    assert (targets[0].address, targets[0].port) == (launch.address, 22)
    assert targets[0].host_public_key == keys.host_public_key
    assert launch.address.startswith("127.")


@pytest.mark.parametrize("loss", ["drop_answer", "truncate_answer"])
def test_r1_lost_answer_of_a_launch_leaves_one_instance(
    front: CloudFront, host: Ec2Host, host_job: HostJob, loss: str
) -> None:
    # boto3 itself asks twice where the connection is cut.
    getattr(front, loss)(times=2)
    with pytest.raises(HostUnavailableError):
        host.acquire(host_job)
    assert (only_row().state, only_row().instance_id) == ("intended", "")

    assert host.acquire(host_job)
    assert only_row().instance_id == front.live()[0].instance_id
    assert len(front.launches) == front.most_live_of_a_job == 1


def test_r5_zone_without_capacity_and_region_without_quota(
    front: CloudFront, host: Ec2Host, host_job: HostJob, settings: Settings
) -> None:
    settings.EC2_REGIONS = ["us-east-1", "eu-west-1"]
    front.plan_error("InsufficientInstanceCapacity", zone="us-east-1a", times=None)
    front.plan_error("VcpuLimitExceeded", "Your vCPU limit is 0.", zone="us-east-1b", times=None)

    assert host.acquire(host_job)
    assert rows() == [
        (1, "us-east-1a", "terminated"),
        (1, "us-east-1b", "terminated"),
        (1, "eu-west-1a", "pending"),
    ]
    assert [launch.zone for launch in front.live()] == ["eu-west-1a"]


def test_r5_expired_credentials_leave_nothing_behind(
    front: CloudFront, host: Ec2Host, host_job: HostJob, job: BenchmarkJob
) -> None:
    front.plan_error("RequestExpired", "Request has expired.", times=None)
    with pytest.raises(HostFaultError) as caught:
        host.acquire(host_job)
    assert caught.value.fault is HostFault.CREDENTIALS
    assert caught.value.message == (
        "RequestExpired (RunInstances in us-east-1): Request has expired."
    )
    job.state = State.CLEANING
    assert host.release(host_job)
    assert front.launches == {}


def test_r5_credentials_that_expire_after_a_launch_are_waited_for(
    front: CloudFront, host: Ec2Host, host_job: HostJob
) -> None:
    """What runs has to be ended, however long it takes until somebody renews them."""
    assert host.acquire(host_job)
    front.plan_error("ExpiredToken", action="*", times=3)
    for _ in range(3):
        with pytest.raises(HostUnavailableError, match="ExpiredToken"):
            host.release(host_job)

    assert host.release(host_job)
    assert front.live() == []
    assert only_row().state == "terminated"


def test_r17_whole_way_to_the_confirmed_end(
    front: CloudFront, host: Ec2Host, host_job: HostJob
) -> None:
    ended: list[Launch] = []
    front.on_end = ended.append
    front.new_shutdown_calls = 1
    assert host.acquire(host_job)
    assert not host.release(host_job)
    assert only_row().state == "terminating"

    assert host.release(host_job)
    assert only_row().state == "terminated"
    assert [launch.instance_id for launch in ended] == [only_row().instance_id]
    assert CloudInstance.objects.get().cost_usd is not None


def test_r9_group_of_the_launch_is_that_of_the_worker(
    front: CloudFront, host: Ec2Host, host_job: HostJob
) -> None:
    assert host.acquire(host_job)
    (opened,) = front.calls_of("AuthorizeSecurityGroupIngress")
    rule = {name: v for name, v in opened.parameters.items() if name.startswith("IpPermissions")}
    assert rule == {
        "IpPermissions.1.IpProtocol": "tcp",
        "IpPermissions.1.FromPort": "22",
        "IpPermissions.1.ToPort": "22",
        "IpPermissions.1.IpRanges.1.CidrIp": "203.0.113.7/32",
    }
    (sent,) = front.calls_of("RunInstances")
    assert sent.parameters["SecurityGroupId.1"] == opened.parameters["GroupId"]
