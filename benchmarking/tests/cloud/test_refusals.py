"""What AWS refuses: another zone, another region, the same again, or the end of the job."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pytest_django import Settings

from benchmarking.hosts.base import (
    HostFault,
    HostUnavailableError,
)
from benchmarking.hosts.ec2.host import Ec2Host
from benchmarking.models import CloudInstance
from benchmarking.tests.cloud.fake_api import refusal
from benchmarking.tests.cloud.worker import Worker, only_row, rows
from benchmarking.tests.jobs.driving import Travel
from benchmarking.tests.jobs.fake_host import ProcessDeath

pytestmark = pytest.mark.django_db


def test_r5_no_capacity_in_a_zone_tries_the_next_zone_in_the_same_step(worker: Worker) -> None:
    worker.cloud.errors = [refusal("InsufficientInstanceCapacity")]

    assert worker.acquire()

    assert rows() == [(1, "us-east-1a", "terminated"), (1, "us-east-1b", "pending")]
    refused = CloudInstance.objects.get(zone="us-east-1a")
    assert (refused.cost_usd, refused.instance_id) == (0, "")
    assert "InsufficientInstanceCapacity" in refused.message
    tokens = set(CloudInstance.objects.values_list("client_token", flat=True))
    assert len(tokens) == 2
    assert all(len(token) == 64 and token.isascii() for token in tokens)


def test_r5_repeated_capacity_error_is_believed_after_a_look(worker: Worker) -> None:
    worker.cloud.errors = [refusal("InsufficientInstanceCapacity", is_certain=False)]

    assert worker.acquire()
    assert worker.cloud.calls == ["run", "find_by_token", "run"]


def test_r5_no_capacity_anywhere_names_every_zone(worker: Worker, settings: Settings) -> None:
    settings.EC2_REGIONS = ["us-east-1", "eu-west-1"]
    worker.cloud.errors = [refusal("InsufficientInstanceCapacity") for _ in range(4)]

    error = worker.acquire_until_fault()

    assert error.fault is HostFault.CAPACITY
    assert error.message.startswith("No zone has a g4dn.xlarge (on demand) now. us-east-1a: Insuff")
    for zone in ("us-east-1a", "us-east-1b", "eu-west-1a", "eu-west-1b"):
        assert f"{zone}: InsufficientInstanceCapacity" in error.message
    assert {state for _, _, state in rows()} == {"terminated"}


def test_r5_after_waiting_for_capacity_a_new_round_has_new_tokens(
    worker: Worker, clock: Travel
) -> None:
    worker.cloud.errors = [refusal("InsufficientInstanceCapacity") for _ in range(2)]
    worker.acquire_until_fault()
    clock.shift(timedelta(minutes=5))

    assert worker.acquire()
    assert rows()[-1] == (2, "us-east-1a", "pending")
    assert CloudInstance.objects.values("client_token").distinct().count() == 3


def test_r5_slow_round_goes_on_in_the_next_step(worker: Worker, clock: Travel) -> None:
    worker.cloud.errors = [refusal("InsufficientInstanceCapacity") for _ in range(2)]
    seconds = iter([0.0, 1.0, 16.0])
    host = Ec2Host(worker.job, api_of=worker.cloud.api_of, clock=lambda: next(seconds))

    assert not host.acquire(worker.host_job)
    assert rows() == [(1, "us-east-1a", "terminated")]
    assert worker.acquire_until_fault().fault is HostFault.CAPACITY
    assert rows() == [(1, "us-east-1a", "terminated"), (1, "us-east-1b", "terminated")]


def test_r5_quota_leaves_the_region_and_tries_the_next(worker: Worker, settings: Settings) -> None:
    settings.EC2_REGIONS = ["us-east-1", "eu-west-1"]
    worker.cloud.errors = [refusal("VcpuLimitExceeded")]

    assert worker.acquire()
    assert rows() == [(1, "us-east-1a", "terminated"), (1, "eu-west-1a", "pending")]


def test_r5_quota_in_every_region_names_the_quota(worker: Worker, settings: Settings) -> None:
    settings.EC2_REGIONS = ["us-east-1", "eu-west-1"]
    worker.cloud.errors = [refusal("VcpuLimitExceeded"), refusal("VcpuLimitExceeded")]

    error = worker.acquire_until_fault()

    assert error.fault is HostFault.QUOTA
    assert "'Running On-Demand G and VT instances'" in error.message
    assert "us-east-1a: VcpuLimitExceeded" in error.message
    assert "eu-west-1a: VcpuLimitExceeded" in error.message


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("UnauthorizedOperation", HostFault.CONFIGURATION),
        ("InvalidAMIID.NotFound", HostFault.CONFIGURATION),
        ("OptInRequired", HostFault.CONFIGURATION),
        ("Unsupported", HostFault.CONFIGURATION),
        ("SomethingNew", HostFault.CONFIGURATION),
        ("AuthFailure", HostFault.CREDENTIALS),
        ("RequestExpired", HostFault.CREDENTIALS),
    ],
)
def test_r5_wrong_request_or_key_ends_at_once_word_for_word(
    worker: Worker, code: str, fault: HostFault
) -> None:
    worker.cloud.errors = [refusal(code)]

    error = worker.acquire_until_fault()

    assert (error.fault, error.message) == (
        fault,
        f"{code} (RunInstances in us-east-1): Played.",
    )
    # Nothing was made, and nobody has to be asked for its end.
    assert rows() == [(1, "us-east-1a", "terminated")]
    worker.clean_up()
    assert worker.release()
    assert worker.cloud.calls == ["run"]


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError", "Unavailable"])
def test_r5_transient_error_keeps_the_token(worker: Worker, code: str) -> None:
    worker.cloud.errors = [refusal(code)]
    with pytest.raises(HostUnavailableError, match=code):
        worker.acquire()
    token = only_row().client_token

    assert worker.acquire()
    assert (only_row().client_token, only_row().state) == (token, "pending")


def test_r5_instance_of_the_token_that_is_terminated_needs_another_attempt(worker: Worker) -> None:
    worker.cloud.zones = {"us-east-1": ("us-east-1a",)}
    worker.cloud.lost_answers = 1
    with pytest.raises(HostUnavailableError):
        worker.acquire()
    (view,) = worker.cloud.live
    worker.cloud.change(view.id, state="terminated", reason="Client.InstanceInitiatedShutdown")
    worker.cloud.hidden = {view.id}

    assert not worker.acquire()
    assert worker.acquire()
    assert rows() == [(1, "us-east-1a", "terminated"), (2, "us-east-1a", "pending")]


def test_r5_other_request_under_the_same_token_is_a_fault_of_the_program(worker: Worker) -> None:
    worker.cloud.die_at = "after run"
    with pytest.raises(ProcessDeath):
        worker.acquire()
    row = only_row()
    request, user_data = worker.cloud.requests[row.client_token]
    worker.cloud.requests[row.client_token] = ({**request, "ImageId": "ami-other"}, user_data)
    worker.cloud.find_errors = [None]
    worker.cloud.hidden = set(worker.cloud.instances)

    error = worker.acquire_until_fault()
    assert error.fault is HostFault.LAUNCH_BUG

    # It is ours all the same, and is looked up and ended once it shows.
    worker.cloud.hidden = set()
    worker.clean_up()
    assert worker.release()
    assert worker.cloud.live == []


def test_user_data_that_cannot_be_made_again_is_not_sent(
    worker: Worker, settings: Settings
) -> None:
    worker.cloud.die_at = "before run"
    with pytest.raises(ProcessDeath):
        worker.acquire()
    settings.EC2_USER = "other"

    error = worker.acquire_until_fault()
    assert (error.fault, worker.cloud.instances) == (HostFault.LAUNCH_BUG, {})
    assert "EC2_USER" in error.message
