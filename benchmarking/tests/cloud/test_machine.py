"""The machine while it is used: coming up, answering, being taken back."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from pytest_django import Settings

from benchmarking.hosts.base import (
    HostFault,
    HostFaultError,
    HostUnavailableError,
    ProcessReport,
    ProcessStatus,
)
from benchmarking.hosts.ssh import SshTarget
from benchmarking.jobs.secrets import read_job_secret
from benchmarking.models import BenchmarkJob
from benchmarking.tests.cloud.worker import Worker, only_row
from benchmarking.tests.jobs.driving import Travel

pytestmark = pytest.mark.django_db


def test_machine_is_ready_once_it_runs_and_answers(worker: Worker, settings: Settings) -> None:
    settings.EC2_SSH_PORT = 2222
    assert worker.acquire()
    assert not worker.host.is_ready(worker.host_job)
    (view,) = worker.cloud.live
    worker.cloud.change(view.id, state="running", address="")
    assert not worker.host.is_ready(worker.host_job)
    worker.cloud.change(view.id, address="127.0.0.9")

    assert worker.host.is_ready(worker.host_job)

    row = only_row()
    assert (row.state, row.address) == ("running", "127.0.0.9")
    keys = read_job_secret(worker.job)
    assert worker.targets == [
        SshTarget(
            address="127.0.0.9",
            port=2222,
            user="ubuntu",
            login_private_key=keys.login_private_key,
            host_public_key=keys.host_public_key,
            python="/opt/pytorch/bin/python",
            watches_spot=False,
        )
    ]
    worker.host.put(worker.host_job, {"plan.json": b"{}"})
    worker.host.start(worker.host_job)
    assert worker.host.poll(worker.host_job) == ProcessReport(ProcessStatus.RUNNING)
    worker.ssh.say(b"line\n")
    assert worker.host.fetch(worker.host_job, 0, 100) == b"line\n"
    worker.host.stop(worker.host_job, force=True)
    assert worker.ssh.stops == [True]


def test_new_instance_that_is_not_shown_yet_is_waited_for(worker: Worker, clock: Travel) -> None:
    assert worker.acquire()
    worker.cloud.hidden = set(worker.cloud.instances)
    assert not worker.host.is_ready(worker.host_job)

    clock.shift(timedelta(seconds=121))
    with pytest.raises(HostFaultError) as caught:
        worker.host.is_ready(worker.host_job)
    assert caught.value.fault is HostFault.LAUNCH_LOST
    assert only_row().state == "lost"


def test_instance_that_ended_by_itself_is_lost(worker: Worker, clock: Travel) -> None:
    worker.boot()
    (view,) = worker.cloud.live
    clock.shift(timedelta(minutes=30))
    worker.cloud.change(
        view.id, state="terminated", reason="Client.InstanceInitiatedShutdown: Instance shutdown"
    )
    worker.ssh.is_away = True

    for call in (
        lambda host: host.poll(worker.host_job),
        lambda host: host.put(worker.host_job, {}),
        lambda host: host.is_ready(worker.host_job),
    ):
        with pytest.raises(HostFaultError, match="InstanceInitiatedShutdown") as caught:
            call(worker.host)
        assert caught.value.fault is HostFault.LAUNCH_LOST
    assert worker.host.fetch(worker.host_job, 0, 100) == b""
    row = only_row()
    # Half an hour at half a dollar.
    assert (row.state, row.cost_usd) == ("terminated", Decimal("0.25"))


def test_r15_instance_that_aws_took_back_was_interrupted(worker: Worker) -> None:
    BenchmarkJob.objects.update(price_kind="spot")
    worker.boot()
    assert worker.targets[-1].watches_spot
    (view,) = worker.cloud.live
    reason = "Server.SpotInstanceTermination: Spot instance termination"
    worker.cloud.change(
        view.id, state="terminated", reason_code="Server.SpotInstanceTermination", reason=reason
    )
    worker.ssh.is_away = True

    first = worker.host.poll(worker.host_job)
    assert (first.status, first.is_interrupted) == (ProcessStatus.ENDED, True)
    assert reason in first.errors
    # The row is closed now; the next look says the same.
    assert worker.host.poll(worker.host_job).is_interrupted


def test_machine_that_does_not_answer_but_runs_is_waited_for(worker: Worker) -> None:
    worker.boot()
    worker.ssh.is_away = True
    with pytest.raises(HostUnavailableError, match="nobody answers"):
        worker.host.poll(worker.host_job)
    assert only_row().state == "running"


def test_r7_wrong_host_key_of_a_machine_that_is_gone_is_no_wrong_host_key(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its address may have gone to somebody else's machine."""

    def mismatch(*arguments: object) -> ProcessReport:
        raise HostFaultError(HostFault.HOST_KEY, "another key")

    worker.boot()
    monkeypatch.setattr(worker.ssh, "poll", mismatch)
    with pytest.raises(HostFaultError, match="another key"):
        worker.host.poll(worker.host_job)

    worker.cloud.change(worker.cloud.live[0].id, state="shutting-down")
    with pytest.raises(HostFaultError) as caught:
        worker.host.poll(worker.host_job)
    assert caught.value.fault is HostFault.LAUNCH_LOST
