"""Jobs on EC2 step by step through the lifecycle, from the queue to the last confirmation."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from benchmarking.hosts.base import ProcessReport, ProcessStatus
from benchmarking.jobs.advance import LEASE_SECONDS, advance_job
from benchmarking.jobs.lifecycle import State, cancel_job
from benchmarking.models import (
    BenchmarkJob,
    CloudInstance,
    Device,
    IterationTiming,
    JobEvent,
    JobSecret,
)
from benchmarking.tests import factories
from benchmarking.tests.cloud.fake_api import FakeEc2, refusal
from benchmarking.tests.cloud.worker import Worker
from benchmarking.tests.jobs.driving import WHOLE_RUN, Travel
from benchmarking.tests.jobs.fake_host import ProcessDeath
from benchmarking.tests.probe_lines import as_bytes

pytestmark = pytest.mark.django_db


class Site:
    """Workers that take the steps of one job, and a machine that comes up and measures."""

    def __init__(self, job: BenchmarkJob, cloud: FakeEc2, clock: Travel) -> None:
        self.worker = Worker(job, cloud)
        self.cloud = cloud
        self.clock = clock
        self.boots = True

    def state(self) -> str:
        return BenchmarkJob.objects.values_list("state", flat=True).get(pk=self.worker.job.pk)

    def step(self) -> float:
        """One step; a death is followed by the end of the dead worker's lease."""
        try:
            delay_seconds = advance_job(self.worker.job.pk, host=self.worker.host)
        except ProcessDeath:
            delay_seconds = LEASE_SECONDS
        self.clock.shift(delay_seconds or 0.0)
        if self.boots:
            for view in self.cloud.live:
                if view.state == "pending":
                    self.cloud.change(view.id, state="running")
        return delay_seconds or 0.0

    def run_until(self, *states: State) -> None:
        for _ in range(80):
            if self.state() in states:
                return
            self.step()
        raise AssertionError(f"the job is still {self.state()}")

    def finish(self) -> BenchmarkJob:
        self.run_until(*BenchmarkJob.FINAL_STATES)
        return BenchmarkJob.objects.get(pk=self.worker.job.pk)

    def measure(self) -> None:
        self.worker.ssh.say(as_bytes(*WHOLE_RUN))
        self.worker.ssh.end()


@pytest.fixture
def site(clock: Travel, job: BenchmarkJob, cloud: FakeEc2) -> Site:
    factories.create_architecture(slug="tinynet")
    # What the probe prints here was measured on a CPU.
    Device.objects.update(kind=Device.Kind.CPU)
    job.refresh_from_db()
    BenchmarkJob.objects.update(
        state=State.QUEUED,
        plan={"schema": 1, "work": [], "time_budget_seconds": 3600.0},
        planned_count=3,
        due_at=timezone.now(),
    )
    return Site(job, cloud, clock)


def outcome(site: Site) -> tuple[str, str]:
    job = site.finish()
    return job.state, job.reason


def test_r17_job_is_over_only_after_its_machine(site: Site) -> None:
    site.run_until(State.RUNNING)
    site.cloud.ends_slowly = True
    site.measure()
    site.run_until(State.CLEANING)
    for _ in range(5):
        site.step()
    assert site.state() == "cleaning"
    (view,) = site.cloud.live
    site.cloud.change(view.id, state="terminated")

    assert outcome(site) == ("succeeded", "completed")
    assert site.cloud.live == []
    assert CloudInstance.objects.get().cost_usd > 0
    assert IterationTiming.objects.count() == 1
    assert JobSecret.objects.get().erased_at is not None


@pytest.mark.parametrize(
    "point", ["before run", "after run", "before find", "before terminate", "after terminate"]
)
def test_r1_r22_death_at_any_call_to_aws_leaves_no_orphan(site: Site, point: str) -> None:
    site.cloud.die_at = point
    site.run_until(State.RUNNING)
    site.measure()

    assert outcome(site) == ("succeeded", "completed")
    assert IterationTiming.objects.count() == 1
    assert site.cloud.die_at == ""
    assert (len(site.cloud.instances), site.cloud.most_live) == (1, 1)
    assert site.cloud.live == []


@pytest.mark.parametrize("state", [State.LAUNCHING, State.BOOTING, State.RUNNING])
def test_r6_cancelled_in_any_state_nothing_is_left(site: Site, state: State) -> None:
    site.boots = state == State.RUNNING
    if state == State.LAUNCHING:
        site.cloud.lost_answers = 2
    site.run_until(state)
    site.step()
    site.cloud.hidden = set(site.cloud.instances) if state == State.LAUNCHING else set()
    assert cancel_job(BenchmarkJob.objects.get())
    site.step()
    site.cloud.hidden = set()

    assert outcome(site) == ("cancelled", "cancelled")
    assert len(site.cloud.instances) == 1
    assert site.cloud.live == []


def test_r5_no_capacity_waits_and_tries_again(site: Site) -> None:
    site.cloud.errors = [refusal("InsufficientInstanceCapacity") for _ in range(2)]
    began = timezone.now()
    site.run_until(State.WAITING_CAPACITY)
    message = JobEvent.objects.filter(new_state="waiting_capacity").last().message
    assert "us-east-1a: InsufficientInstanceCapacity" in message
    assert "us-east-1b: InsufficientInstanceCapacity" in message

    site.run_until(State.RUNNING)
    assert timezone.now() - began >= timedelta(minutes=4)
    attempts = CloudInstance.objects.order_by("id").values_list("attempt", "zone")
    assert list(attempts) == [(1, "us-east-1a"), (1, "us-east-1b"), (2, "us-east-1a")]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("VcpuLimitExceeded", "quota"),
        ("InvalidAMIID.NotFound", "configuration"),
        ("AuthFailure", "credentials"),
    ],
)
def test_r5_each_refusal_has_an_end_of_its_own_and_leaves_nothing(
    site: Site, code: str, reason: str
) -> None:
    site.cloud.errors = [refusal(code)]
    assert outcome(site) == ("failed", reason)
    assert site.cloud.instances == {}
    assert code in JobEvent.objects.filter(new_state="cleaning").last().message


def test_machine_that_was_retired_while_its_job_waited(site: Site) -> None:
    machine = site.worker.job.machine
    machine.availability = machine.Availability.RETIRED
    machine.save()
    assert outcome(site) == ("failed", "machine_retired")
    assert site.cloud.calls == []


def test_r4_cap_of_zero_ends_the_job(site: Site, settings: Settings) -> None:
    settings.BENCHMARK_USD_PER_MONTH = 0
    assert outcome(site) == ("failed", "limit")
    assert site.cloud.calls == []


def test_r15_spot_machine_that_is_taken_away_ends_the_job_with_what_it_has(site: Site) -> None:
    BenchmarkJob.objects.update(price_kind="spot")
    site.run_until(State.RUNNING)
    site.worker.ssh.is_away = True
    (view,) = site.cloud.live
    site.cloud.change(
        view.id,
        state="terminated",
        reason_code="Server.SpotInstanceTermination",
        reason="Server.SpotInstanceTermination: taken",
    )
    assert outcome(site) == ("failed", "spot_interrupted")


def test_r15_spot_notice_ends_the_machine_after_collection(site: Site) -> None:
    BenchmarkJob.objects.update(price_kind="spot")
    site.run_until(State.RUNNING)
    site.worker.ssh.say(as_bytes(*WHOLE_RUN[:2]))
    site.worker.ssh.report = ProcessReport(ProcessStatus.ENDED, 0, "", is_interrupted=True)

    job = site.finish()
    assert (job.state, job.reason) == ("failed", "spot_interrupted")
    assert site.cloud.live == []
    assert IterationTiming.objects.count() == 1


def test_machine_that_dies_ends_the_job_as_lost(site: Site) -> None:
    site.run_until(State.RUNNING)
    site.worker.ssh.is_away = True
    site.cloud.change(site.cloud.live[0].id, state="terminated", reason="It switched itself off.")
    assert outcome(site) == ("failed", "instance_lost")


def test_r13_silent_machine_is_ended_after_its_deadline(site: Site) -> None:
    site.run_until(State.RUNNING)
    site.worker.ssh.is_away = True

    for _ in range(600):
        if site.state() in BenchmarkJob.FINAL_STATES:
            break
        site.step()
    assert site.cloud.live == []
    row = CloudInstance.objects.get()
    assert row.state == "terminated"
    assert row.terminated_at <= row.expires_at
