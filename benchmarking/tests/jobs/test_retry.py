"""R11 and R15: what is missing is measured by another job, which costs no more than was agreed."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from pytest_django import Settings

from benchmarking.hosts.base import HostFault, HostFaultError
from benchmarking.jobs.advance import advance_job
from benchmarking.jobs.creation import create_job
from benchmarking.jobs.lifecycle import State, cancel_job
from benchmarking.jobs.planner import MeasurementPlan
from benchmarking.jobs.quote import JobRefusedError
from benchmarking.jobs.reasons import Reason
from benchmarking.jobs.retry import retry_job
from benchmarking.models import BenchmarkJob, Machine, Price, WorkClaim
from benchmarking.probe.plan import ConvolutionWork, IterationWork, StackRequest
from benchmarking.specs import Pass, Precision
from benchmarking.tests import factories
from benchmarking.tests.factories import FIRST_LAYER, MIDDLE_LAYER, environment_line
from benchmarking.tests.jobs.driving import Travel, advance_until, last_message, reload
from benchmarking.tests.jobs.fake_host import FakeHost
from benchmarking.tests.probe_lines import (
    as_bytes,
    convolution_line,
    done_line,
    error_line,
    iteration_line,
)

pytestmark = pytest.mark.django_db

PLAN = MeasurementPlan(
    (
        IterationWork("tinynet", 32, False, 1),
        ConvolutionWork(MIDDLE_LAYER, 1, tuple(Pass)),
        ConvolutionWork(MIDDLE_LAYER, 4, (Pass.FORWARD,)),
        ConvolutionWork(FIRST_LAYER, 1, (Pass.FORWARD, Pass.BACKWARD_FILTER), round=2),
    ),
    expected_seconds=400.0,
    usd_per_hour=None,
    already_measured=0,
)
STACK = StackRequest(precision=Precision.FP32, threads=2)


@pytest.fixture(autouse=True)
def limits(settings: Settings) -> Settings:
    settings.BENCHMARK_USD_PER_MONTH = Decimal(100)
    settings.BENCHMARK_USD_PER_JOB = Decimal(10)
    settings.BENCHMARK_INSTANCES = 2
    return settings


@pytest.fixture
def machine() -> Machine:
    factories.create_architecture(slug="tinynet")
    device = factories.create_device(reported_name="Tesla V100*")
    machine = factories.create_machine(slug="aws-p3.2xlarge", device=device)
    factories.create_price(machine=machine, usd_per_hour="3")
    factories.create_price(machine=machine, usd_per_hour="1", kind=Price.Kind.SPOT)
    return machine


def cloud_job(machine: Machine, **values: Any) -> BenchmarkJob:
    return create_job(
        machine=machine,
        plan=PLAN,
        stack=STACK,
        **{"host_kind": "ec2", "price_kind": "spot", "maximum_usd": Decimal(4), **values},
    )


def environment() -> dict[str, Any]:
    return environment_line(machine="aws-p3.2xlarge", gpu={"name": "Tesla V100-SXM2-16GB"})


def end(job: BenchmarkJob, host: FakeHost, clock: Travel) -> BenchmarkJob:
    """To the end as a worker brings it there, which rings for what follows."""
    for _ in range(60):
        delay_seconds = advance_job(job.pk, host=host, ring=lambda job_id, delay: None)
        if delay_seconds is None:
            return reload(job)
        clock.shift(delay_seconds)
    raise AssertionError("it does not end")


def passes(job: BenchmarkJob) -> list[tuple[str, int, Any]]:
    return [(item["kind"], item["batch_size"], item.get("passes")) for item in job.plan["work"]]


def test_r15_interruption_keeps_what_is_measured_and_the_rest_is_measured_again(
    machine: Machine, clock: Travel
) -> None:
    job, host = cloud_job(machine), FakeHost()
    advance_until(job, host, clock, State.RUNNING)
    host.say(
        as_bytes(
            environment(),
            iteration_line(batch_size=1),
            convolution_line(batch_size=1, samples_ms={"forward": [1.0], "backward_data": [2.0]}),
        )
    )
    host.interrupt()

    ended = end(job, host, clock)

    assert (ended.state, ended.reason, ended.stored_count) == ("failed", "spot_interrupted", 2)
    assert host.stops == [False]
    assert host.is_released
    successor = BenchmarkJob.objects.get(retry_of=job)
    assert passes(successor) == [
        ("convolution", 1, ["backward_filter"]),
        ("convolution", 4, ["forward"]),
        ("convolution", 1, ["forward", "backward_filter"]),
    ]
    assert successor.plan["work"][2]["round"] == 2
    assert successor.plan["stack"] == job.plan["stack"]
    assert (successor.attempt, successor.interruptions) == (2, 1)
    assert (successor.host_kind, successor.price_kind) == ("ec2", "spot")
    assert successor.expected_seconds == 300.0
    assert successor.due_at - ended.ended_at == timedelta(minutes=2)
    assert set(WorkClaim.objects.values_list("job", flat=True)) == {successor.pk}
    assert job.events.last().message == f"Job {successor.pk} measures what is left."


def test_r15_after_two_interruptions_the_machine_is_rented_on_demand(
    machine: Machine, clock: Travel
) -> None:
    job = cloud_job(machine)
    for _ in range(2):
        host = FakeHost()
        advance_until(job, host, clock, State.RUNNING)
        host.interrupt()
        end(job, host, clock)
        job = BenchmarkJob.objects.get(retry_of=job)
        clock.shift(timedelta(minutes=2))

    assert (job.attempt, job.interruptions, job.price_kind) == (3, 2, "on-demand")


def test_r15_a_spot_machine_that_is_gone_counts_as_interrupted(
    machine: Machine, clock: Travel
) -> None:
    job, host = cloud_job(machine), FakeHost()
    advance_until(job, host, clock, State.RUNNING)
    host.end(None)
    host.faults["poll"] = HostFaultError(HostFault.LAUNCH_LOST, "i-1 is terminated")

    ended = end(job, host, clock)

    assert (ended.reason, ended.interruptions) == ("instance_lost", 1)
    assert last_message(job, "cleaning") == "i-1 is terminated"


def test_r15_a_probe_that_was_done_before_the_machine_went_has_completed(
    machine: Machine, clock: Travel
) -> None:
    job, host = cloud_job(machine), FakeHost()
    advance_until(job, host, clock, State.RUNNING)
    host.say(as_bytes(environment(), done_line()))
    host.end()
    host.interrupt()

    assert end(job, host, clock).reason == "completed"
    assert BenchmarkJob.objects.count() == 1


def test_at_most_three_jobs_follow_each_other(machine: Machine, clock: Travel) -> None:
    job = cloud_job(machine, price_kind="on-demand")
    for _ in range(3):
        host = FakeHost()
        advance_until(job, host, clock, State.RUNNING)
        host.end(1, "Segmentation fault")
        end(job, host, clock)
        clock.shift(timedelta(minutes=2))
        job = BenchmarkJob.objects.filter(retry_of=job).first() or job

    assert BenchmarkJob.objects.count() == 3
    assert job.events.last().message == "Not tried again by itself: it was the third try."


def test_r20_jobs_that_follow_by_themselves_cost_no_more_than_was_agreed_for_the_first(
    machine: Machine, clock: Travel
) -> None:
    job, host = cloud_job(machine), FakeHost()
    factories.create_instance(
        job=job,
        state="terminated",
        launched_at=job.created_at,
        terminated_at=job.created_at + timedelta(hours=1),
        cost_usd=Decimal("1.25"),
    )
    advance_until(job, host, clock, State.RUNNING)
    host.end(1)
    end(job, host, clock)

    assert BenchmarkJob.objects.get(retry_of=job).maximum_usd == Decimal("2.75")


def test_what_is_used_up_is_not_spent_again_by_itself(machine: Machine, clock: Travel) -> None:
    job, host = cloud_job(machine), FakeHost()
    factories.create_instance(job=job, state="terminated", cost_usd=Decimal(4))
    advance_until(job, host, clock, State.RUNNING)
    host.end(1)
    end(job, host, clock)

    assert BenchmarkJob.objects.count() == 1
    assert job.events.last().message == (
        "Not tried again by itself: What was agreed to is used up."
    )


@pytest.mark.parametrize("reason", [r for r in Reason if not r.outcome.retry])
def test_what_would_fail_again_is_not_tried_by_itself(
    machine: Machine, clock: Travel, reason: Reason
) -> None:
    job = cloud_job(machine)
    BenchmarkJob.objects.update(state=State.CLEANING, reason=reason.value)

    end(job, FakeHost(), clock)

    assert BenchmarkJob.objects.count() == 1


def test_at_a_terminal_nobody_goes_on_by_itself(machine: Machine, clock: Travel) -> None:
    job = cloud_job(machine)
    BenchmarkJob.objects.update(state=State.CLEANING, reason=Reason.PROBE_DIED.value)

    advance_job(job.pk, host=FakeHost())

    assert reload(job).state == "failed"
    assert BenchmarkJob.objects.count() == 1


def cancelled(machine: Machine, clock: Travel, *lines: dict[str, Any]) -> BenchmarkJob:
    job, host = cloud_job(machine), FakeHost()
    advance_until(job, host, clock, State.RUNNING)
    host.say(as_bytes(environment(), *lines))
    cancel_job(job)
    return end(job, host, clock)


def test_r11_retry_by_hand_measures_only_what_is_missing(machine: Machine, clock: Travel) -> None:
    job = cancelled(
        machine,
        clock,
        iteration_line(batch_size=1),
        convolution_line(samples_ms={"forward": [1.0]}),
    )
    factories.create_instance(job=job, state="terminated", cost_usd=Decimal(3))

    successor = retry_job(job)

    assert [item[:2] for item in passes(successor)] == [("convolution", 1), ("convolution", 1)]
    assert (successor.retry_of, successor.attempt) == (job, 2)
    # Whoever asks for it agrees to the same once more.
    assert successor.maximum_usd == Decimal(4)


def test_r11_what_others_have_measured_and_what_failed_for_good_is_left_out(
    machine: Machine, clock: Travel
) -> None:
    work = {**PLAN.work[2].as_item()}
    job = cancelled(machine, clock, error_line(work=work))
    stack = job.runs.get().stack
    other = factories.create_machine(device=machine.device)
    run = factories.create_run(machine=other, stack=stack)
    layer = factories.create_layer(MIDDLE_LAYER)
    for operation in Pass:
        factories.create_layer_timing(run=run, layer=layer, operation=operation)

    successor = retry_job(job)

    assert [(item[0], item[1]) for item in passes(successor)] == [
        ("iteration", 1),
        ("convolution", 1),
    ]
    assert successor.plan["work"][1]["round"] == 2


def test_one_job_goes_on_with_a_job(machine: Machine, clock: Travel) -> None:
    job = cancelled(machine, clock)
    successor = retry_job(job)

    with pytest.raises(JobRefusedError) as refusal:
        retry_job(job)

    assert str(refusal.value) == f"Job {successor.pk} goes on with it already."
    assert BenchmarkJob.objects.count() == 2


def test_job_that_is_not_over_is_not_retried(machine: Machine, clock: Travel) -> None:
    with pytest.raises(JobRefusedError) as refusal:
        retry_job(cloud_job(machine))

    assert str(refusal.value) == ("The job is not over yet; cancel it first, or wait for its end.")


def test_job_that_has_measured_everything_is_not_retried(machine: Machine, clock: Travel) -> None:
    job = cancelled(
        machine,
        clock,
        iteration_line(batch_size=1),
        convolution_line(batch_size=1, samples_ms={p.value: [1.0] for p in Pass}),
        convolution_line(samples_ms={"forward": [1.0]}),
        convolution_line(
            layer=FIRST_LAYER,
            batch_size=1,
            round=2,
            samples_ms={"forward": [1.0], "backward_filter": [1.0]},
        ),
    )
    assert job.stored_count == 4

    with pytest.raises(JobRefusedError, match="It left nothing to measure"):
        retry_job(job)
