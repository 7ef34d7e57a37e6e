"""Launching: the intent comes first, and whoever dies around it leaves one instance."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from benchmarking.hosts.base import (
    HostUnavailableError,
)
from benchmarking.jobs import instances
from benchmarking.jobs.lifecycle import cancel_job
from benchmarking.models import BenchmarkJob, CloudInstance
from benchmarking.tests.cloud.fake_api import FakeEc2
from benchmarking.tests.cloud.worker import Worker, only_row, rows
from benchmarking.tests.jobs.driving import Travel
from benchmarking.tests.jobs.fake_host import ProcessDeath

pytestmark = pytest.mark.django_db


def test_r2_whole_request_is_committed_before_aws_is_asked(worker: Worker) -> None:
    worker.cloud.die_at = "before run"
    with pytest.raises(ProcessDeath):
        worker.acquire()

    row = only_row()
    assert (row.state, row.region, row.zone) == ("intended", "us-east-1", "us-east-1a")
    assert row.request["ClientToken"] == row.client_token
    assert row.request["ImageId"] == "ami-00000001"
    assert row.asked_at == timezone.now()
    # One hour until the deadline, and ten minutes for an orderly end.
    assert row.expires_at - row.intended_at == timedelta(minutes=70)
    assert (row.usd_per_hour, row.reserved_usd) == (Decimal("0.5"), Decimal("0.583334"))

    assert worker.acquire()
    sent, user_data = worker.cloud.requests[row.client_token]
    assert sent == row.request
    assert b"shutdown -P +70" in user_data


def test_r2_replay_hours_later_sends_the_same_bytes(worker: Worker, clock: Travel) -> None:
    worker.cloud.lost_answers = 1
    with pytest.raises(HostUnavailableError):
        worker.acquire()
    # EC2 would refuse another request under the same token.
    worker.cloud.hidden = set(worker.cloud.instances)
    clock.shift(timedelta(minutes=40))

    assert worker.acquire()
    assert only_row().state == "pending"
    assert len(worker.cloud.instances) == 1


@pytest.mark.parametrize("point", ["before run", "after run"])
def test_r1_death_around_the_launch_leaves_one_instance(worker: Worker, point: str) -> None:
    worker.cloud.die_at = point
    with pytest.raises(ProcessDeath):
        worker.acquire()

    assert worker.acquire()
    assert worker.acquire()

    assert len(worker.cloud.instances) == 1
    assert worker.cloud.most_live == 1
    assert only_row().instance_id == worker.cloud.live[0].id


def test_r1_death_between_intent_and_question_leaves_one_instance(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(instance: CloudInstance) -> bool:
        raise ProcessDeath("before the launch is noted")

    with monkeypatch.context() as patched:
        patched.setattr(instances, "mark_asked", die)
        with pytest.raises(ProcessDeath):
            worker.acquire()
    assert (only_row().state, only_row().asked_at) == ("intended", None)

    assert worker.acquire()
    assert rows() == [(1, "us-east-1a", "pending")]
    assert len(worker.cloud.instances) == 1


def test_r1_death_between_launch_and_record_leaves_one_instance(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*args: object, **values: object) -> bool:
        raise ProcessDeath("before the instance is written down")

    with monkeypatch.context() as patched:
        patched.setattr(instances, "mark_launched", die)
        with pytest.raises(ProcessDeath):
            worker.acquire()
    assert len(worker.cloud.live) == 1

    assert worker.acquire()
    assert worker.cloud.calls == ["run", "find_by_token"]
    assert only_row().instance_id == worker.cloud.live[0].id


def test_r1_two_workers_at_once_launch_one_instance(worker: Worker, cloud: FakeEc2) -> None:
    first = Worker(worker.job, cloud)
    cloud.die_at = "before run"
    with pytest.raises(ProcessDeath):
        first.acquire()

    assert worker.acquire()
    # The first one was only asleep, and wakes up with the request in its hand.
    row = only_row()
    view = cloud.api_of("us-east-1").run(*cloud.requests[row.client_token])

    assert view.id == row.instance_id
    assert cloud.most_live == 1


def test_r1_lost_answer_is_found_by_its_token(worker: Worker) -> None:
    worker.cloud.lost_answers = 1
    with pytest.raises(HostUnavailableError, match="Read timeout"):
        worker.acquire()

    assert worker.acquire()
    assert len(worker.cloud.instances) == 1
    assert worker.cloud.calls == ["run", "find_by_token"]


def test_launch_that_comes_back_after_the_row_was_given_up_is_ended(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that slept between question and answer finds that nobody waits any more."""
    api = worker.cloud.api_of("us-east-1")
    run = type(api).run

    def slow(self, request, user_data):
        view = run(self, request, user_data)
        cancel_job(BenchmarkJob.objects.get())
        CloudInstance.objects.update(state="terminated")
        return view

    monkeypatch.setattr(type(api), "run", slow)

    assert not worker.acquire()
    assert worker.cloud.live == []


def test_intent_of_a_job_that_was_cancelled_meanwhile_is_refused(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = worker.cloud.api_of("us-east-1")
    find_image = type(api).find_image

    def slow(self, *arguments):
        cancel_job(BenchmarkJob.objects.get())
        return find_image(self, *arguments)

    monkeypatch.setattr(type(api), "find_image", slow)

    assert not worker.acquire()
    assert (CloudInstance.objects.count(), worker.cloud.calls) == (0, [])
