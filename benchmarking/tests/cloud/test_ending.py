"""The end of a machine counts only when EC2 says so, and is asked for until then."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from benchmarking.hosts.base import (
    HostUnavailableError,
    ProcessStatus,
)
from benchmarking.jobs import instances
from benchmarking.models import CloudInstance, JobEvent
from benchmarking.tests.cloud.fake_api import refusal
from benchmarking.tests.cloud.worker import Worker, only_row, rows
from benchmarking.tests.jobs.driving import Travel
from benchmarking.tests.jobs.fake_host import ProcessDeath

pytestmark = pytest.mark.django_db


def test_r17_terminated_only_when_a_description_says_so(worker: Worker, clock: Travel) -> None:
    worker.boot()
    worker.cloud.ends_slowly = True
    worker.clean_up()
    clock.shift(timedelta(minutes=6))

    assert not worker.release()
    row = only_row()
    assert (row.state, row.terminate_asked_at) == ("terminating", timezone.now())
    assert row.cost_usd is None
    clock.shift(timedelta(minutes=6))
    assert not worker.release()
    worker.cloud.ends_slowly = False
    worker.cloud.change(worker.cloud.live[0].id, state="terminated")

    assert worker.release()
    row = only_row()
    assert (row.state, row.terminated_at) == ("terminated", timezone.now())
    assert row.cost_usd == Decimal("0.1")
    assert JobEvent.objects.last().message.endswith("It cost 0.10 USD.")


def test_r17_cost_of_a_short_life_is_not_rounded_away(worker: Worker, clock: Travel) -> None:
    worker.boot()
    CloudInstance.objects.update(usd_per_hour=Decimal("0.0042"))
    worker.clean_up()
    clock.shift(timedelta(minutes=6))

    worker.cloud.change(worker.cloud.live[0].id, state="terminated")
    assert worker.release()

    assert only_row().cost_usd == Decimal("0.000420")
    assert JobEvent.objects.last().message.endswith("It cost 0.00042 USD.")


@pytest.mark.parametrize("point", ["before terminate", "after terminate", "before find"])
def test_r17_death_while_ending_ends_it_all_the_same(worker: Worker, point: str) -> None:
    worker.boot()
    worker.clean_up()
    worker.cloud.die_at = point
    with pytest.raises(ProcessDeath):
        worker.release()

    assert worker.release()
    assert worker.cloud.live == []
    assert only_row().state == "terminated"


def test_r17_not_found_counts_only_after_the_consistency_window(
    worker: Worker, clock: Travel
) -> None:
    worker.boot()
    worker.clean_up()
    worker.cloud.hidden = set(worker.cloud.instances)

    assert not worker.release()
    clock.shift(timedelta(seconds=119))
    assert not worker.release()
    clock.shift(timedelta(seconds=2))
    assert worker.release()
    assert only_row().message == "EC2 does not know it any more."


def test_r17_end_that_does_not_come_is_asked_for_again_with_an_alert(
    worker: Worker, clock: Travel, caplog: pytest.LogCaptureFixture
) -> None:
    worker.boot()
    worker.cloud.ends_slowly = True
    worker.clean_up()
    for _ in range(5):
        assert not worker.release()
        clock.shift(timedelta(minutes=4))

    assert worker.cloud.calls.count("terminate") == 5
    alerts = JobEvent.objects.filter(message__startswith="ALERT")
    assert [alert.message for alert in alerts] == [
        f"ALERT: {worker.cloud.live[0].id} is still not terminated, 10 minutes after it was "
        "asked for."
    ]
    assert caplog.text.count("ALERT") == 1


def test_r17_refused_end_is_retried_for_ever_with_an_alert(worker: Worker) -> None:
    worker.boot()
    worker.clean_up()
    worker.cloud.find_errors = [refusal("UnauthorizedOperation")] * 3
    for _ in range(3):
        with pytest.raises(HostUnavailableError, match="UnauthorizedOperation"):
            worker.release()

    assert worker.release()
    assert JobEvent.objects.filter(message__startswith="ALERT: cannot end i-").count() == 1


def test_r6_cancelled_before_aws_was_asked(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(instance: CloudInstance) -> bool:
        raise ProcessDeath("asleep before the launch is noted")

    with monkeypatch.context() as patched:
        patched.setattr(instances, "mark_asked", sleep)
        with pytest.raises(ProcessDeath):
            worker.acquire()
    sleeper, row_in_its_hand = worker.host, only_row()
    worker.clean_up()

    assert worker.host.poll(worker.host_job).status is ProcessStatus.ENDED
    assert worker.release()
    assert rows() == [(1, "us-east-1a", "terminated")]
    # R23: when the launcher wakes up, it does not launch any more.
    assert not sleeper._launch(row_in_its_hand)
    assert (only_row().cost_usd, worker.cloud.calls) == (0, [])


def test_r6_cancelled_while_the_answer_is_unknown(worker: Worker, clock: Travel) -> None:
    worker.cloud.lost_answers = 1
    with pytest.raises(HostUnavailableError):
        worker.acquire()
    worker.cloud.hidden = set(worker.cloud.instances)
    worker.clean_up()

    assert worker.host.poll(worker.host_job).status is ProcessStatus.ENDED
    assert worker.host.fetch(worker.host_job, 0, 10) == b""
    worker.host.stop(worker.host_job, force=False)
    assert not worker.release()
    worker.cloud.hidden = set()

    assert worker.release()
    assert worker.cloud.live == []
    row = only_row()
    assert (row.state, row.instance_id) == ("terminated", "i-00000000000000001")


def test_r6_cancelled_after_a_question_that_nobody_got(worker: Worker, clock: Travel) -> None:
    worker.cloud.die_at = "before run"
    with pytest.raises(ProcessDeath):
        worker.acquire()
    worker.clean_up()

    assert not worker.release()
    clock.shift(timedelta(seconds=121))
    assert worker.release()
    assert (only_row().state, only_row().cost_usd) == ("terminated", 0)


def test_release_without_any_launch_is_over_at_once(worker: Worker) -> None:
    worker.clean_up()
    assert worker.release()
    assert worker.cloud.calls == []
