"""Steps, crashes, cancellations, errors and the clock in any order: the promises hold (R1 to R22).

Hypothesis looks for an order in which a job has two machines, a machine outlives its job, a row
is lost, or more is spent than may be.
"""

from __future__ import annotations

import uuid
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal

import pytest
import time_machine
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pytest_django import Settings

from benchmarking.hosts.base import HostFault, HostFaultError, HostJob, HostUnavailableError
from benchmarking.jobs.advance import advance_job
from benchmarking.jobs.budget import spending
from benchmarking.jobs.creation import create_job
from benchmarking.jobs.lifecycle import cancel_job
from benchmarking.jobs.planner import MeasurementPlan
from benchmarking.models import BenchmarkJob, CloudInstance, IterationTiming, WorkClaim
from benchmarking.probe.plan import IterationWork, StackRequest
from benchmarking.tests import factories
from benchmarking.tests.jobs.fake_cloud import CRASH_POINTS, FakeCloud, FakeCloudHost, reap
from benchmarking.tests.jobs.fake_host import ProcessDeath
from benchmarking.tests.probe_lines import as_bytes, done_line, environment_line, iteration_line

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 5, 2, 12, tzinfo=UTC)
MONTH_USD = Decimal(4)
MOST_INSTANCES = 2
MOST_JOBS = 6
BATCHES_OF_A_JOB = 3
SEARCH = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    database=None,
)
seen: Counter[str] = Counter()


class OwnRunHost(FakeCloudHost):
    """Its probe has a run of its own, and measures what its job has planned."""

    def fetch(self, job: HostJob, offset: int, maximum_bytes: int) -> bytes:
        instance = self._job.instances.order_by("id").last()
        number = instance.pk if instance is not None else 0
        run_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{job.id} {number}"))
        data = super().fetch(job, 0, 2**20).replace(b"{run}", run_id.encode())
        first = self._job.plan["work"][0]["batch_size"]
        data = data.replace(b'"batch_size": 777', f'"batch_size": {first}'.encode())
        return data[offset : offset + maximum_bytes]


class AnyOrder(RuleBasedStateMachine):
    """A cloud, a few jobs, and everything that can happen to them."""

    @initialize()
    def begin(self) -> None:
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.travel = time_machine.travel(NOON, tick=False)
        self.clock = self.travel.start()
        environment = environment_line(
            machine="aws-p3.2xlarge", gpu={"name": "Tesla V100-SXM2-16GB"}, run_id="{run}"
        )
        self.cloud = FakeCloud(
            as_bytes(environment), rest=as_bytes(iteration_line(batch_size=777), done_line())
        )
        factories.create_architecture(slug="tinynet")
        device = factories.create_device(reported_name="Tesla V100*")
        self.machine = factories.create_machine(slug="aws-p3.2xlarge", device=device)
        for kind in ("spot", "on-demand"):
            factories.create_price(machine=self.machine, usd_per_hour="1", kind=kind)
        self.ids: list[uuid.UUID] = []
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(
            "benchmarking.jobs.advance.host_of", lambda job: OwnRunHost(job, self.cloud)
        )

        self.somebody_asks("spot")
        self.somebody_asks("on-demand")

    def _tick(self, job_id: uuid.UUID) -> None:
        advance_job(job_id, ring=lambda job_id, delay_seconds: None)
        self.ids = list(BenchmarkJob.objects.order_by("created_at").values_list("pk", flat=True))

    def _pick(self, number: int) -> uuid.UUID:
        return self.ids[number % len(self.ids)]

    @precondition(lambda self: hasattr(self, "ids") and len(self.ids) < MOST_JOBS)
    @rule(kind=st.sampled_from(["spot", "on-demand"]))
    def somebody_asks(self, kind: str) -> None:
        first = 1 + BATCHES_OF_A_JOB * len(self.ids)
        work = tuple(
            IterationWork("tinynet", 32, False, first + number)
            for number in range(BATCHES_OF_A_JOB)
        )
        job = create_job(
            machine=self.machine,
            plan=MeasurementPlan(work, 30.0, None, 0),
            stack=StackRequest(),
            host_kind="ec2",
            price_kind=kind,
            maximum_usd=Decimal(2),
        )
        self.ids.append(job.pk)

    @precondition(lambda self: bool(getattr(self, "ids", [])))
    @rule(number=st.integers(0, 5), ticks=st.integers(1, 8), pause=st.sampled_from([0, 6]))
    def worker_takes_steps(self, number: int, ticks: int, pause: int) -> None:
        for _ in range(ticks):
            self._tick(self._pick(number))
            self.clock.shift(pause)

    @precondition(lambda self: bool(getattr(self, "ids", [])))
    @rule(number=st.integers(0, 5), point=st.sampled_from(CRASH_POINTS))
    def worker_dies(self, number: int, point: str) -> None:
        self.cloud.crash_at = point
        try:
            for _ in range(8):
                self._tick(self._pick(number))
                self.clock.shift(6)
        except ProcessDeath:
            seen[f"death {point}"] += 1
        self.cloud.crash_at = ""

    @precondition(lambda self: bool(getattr(self, "ids", [])))
    @rule(number=st.integers(0, 5))
    def somebody_cancels(self, number: int) -> None:
        cancel_job(BenchmarkJob.objects.get(pk=self._pick(number)))

    @precondition(lambda self: hasattr(self, "ids"))
    @rule(seconds=st.sampled_from([5, 61, 400, 3600, 18_000]))
    def time_passes(self, seconds: int) -> None:
        self.clock.shift(seconds)
        self.cloud.let_time_pass()

    @precondition(lambda self: hasattr(self, "ids"))
    @rule()
    def probes_finish(self) -> None:
        self.cloud.let_probes_finish()

    @precondition(lambda self: hasattr(self, "ids"))
    @rule()
    def cloud_takes_machines_back(self) -> None:
        seen["interruption"] += len(self.cloud.live)
        self.cloud.interrupt_all()

    @precondition(lambda self: hasattr(self, "ids"))
    @rule(fault=st.sampled_from([HostFault.CAPACITY, HostFault.QUOTA, HostFault.CREDENTIALS]))
    def cloud_refuses_a_launch(self, fault: HostFault) -> None:
        self.cloud.launch_error = HostFaultError(fault, f"{fault} it is")

    @precondition(lambda self: hasattr(self, "ids"))
    @rule()
    def cloud_does_not_answer(self) -> None:
        self.cloud.error = HostUnavailableError("no answer")

    @precondition(lambda self: hasattr(self, "ids"))
    @rule()
    def reaper_comes(self) -> None:
        reap(self.cloud)

    @invariant()
    def a_job_has_one_machine_at_most(self) -> None:
        if not hasattr(self, "ids"):
            return
        jobs = dict(CloudInstance.objects.values_list("client_token", "job"))
        # No machine without a row that was there before it.
        live = Counter(jobs[machine.token] for machine in self.cloud.live)
        assert max(live.values(), default=0) <= 1
        assert len(self.cloud.live) <= spending().live_instances <= MOST_INSTANCES

    @invariant()
    def no_more_is_spent_than_may_be(self) -> None:
        if hasattr(self, "ids"):
            now = timezone.now()
            charged = sum(
                machine.cost(self.cloud.usd_per_hour, now)
                for machine in self.cloud.instances.values()
            )
            assert charged <= MONTH_USD

    def teardown(self) -> None:
        if not hasattr(self, "ids"):
            return
        try:
            self.cloud.error = self.cloud.launch_error = None
            self._let_everything_end()
        finally:
            self.patch.undo()
            self.travel.stop()
            transaction.set_rollback(True)
            self.atomic.__exit__(None, None, None)

    def _let_everything_end(self) -> None:
        unfinished = BenchmarkJob.objects.exclude(state__in=BenchmarkJob.FINAL_STATES)
        for _ in range(300):
            if not unfinished.exists():
                break
            for job_id in unfinished.order_by("created_at").values_list("pk", flat=True):
                self._tick(job_id)
            self.cloud.let_probes_finish()
            self.clock.shift(61)
            self.cloud.let_time_pass()
        else:
            raise AssertionError(f"not over: {list(unfinished.values_list('state', 'reason'))}")
        reap(self.cloud)
        for job in BenchmarkJob.objects.defer("plan"):
            seen[f"ended {job.reason}"] += 1
        assert self.cloud.live == []
        rows = CloudInstance.objects.all()
        assert not rows.filter(state__in=CloudInstance.LIVE_STATES).exists()
        assert not rows.filter(cost_usd=None).exists()
        assert spending().reserved_usd == 0
        assert WorkClaim.objects.count() == 0
        stored = sum(BenchmarkJob.objects.values_list("stored_count", flat=True))
        assert IterationTiming.objects.count() == stored


def test_promises_hold_in_any_order(settings: Settings) -> None:
    settings.BENCHMARK_INSTANCES = MOST_INSTANCES
    settings.BENCHMARK_INSTANCES_PER_REGION = MOST_INSTANCES
    settings.BENCHMARK_USD_PER_MONTH = MONTH_USD
    settings.BENCHMARK_USD_PER_JOB = Decimal(3)
    seen.clear()

    run_state_machine_as_test(AnyOrder, settings=SEARCH)

    print(", ".join(f"{name} {count}" for name, count in sorted(seen.items())))
    assert seen["ended completed"] > 0
