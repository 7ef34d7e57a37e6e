"""R26: ten people who ask for the same missing layer cause one measurement."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from django.db import connection

from benchmarking.jobs.claims import claim_work
from benchmarking.jobs.creation import create_job
from benchmarking.jobs.lifecycle import State, job_transition
from benchmarking.jobs.planner import MeasurementPlan
from benchmarking.jobs.quote import JobRefusedError
from benchmarking.jobs.reasons import Reason
from benchmarking.models import BenchmarkJob, Machine, WorkClaim
from benchmarking.probe.plan import ConvolutionWork, IterationWork, StackRequest, Work
from benchmarking.specs import Pass, Precision
from benchmarking.tests import factories
from benchmarking.tests.factories import FIRST_LAYER, MIDDLE_LAYER

EVERYTHING = (
    IterationWork("tinynet", 32, False, 1),
    ConvolutionWork(FIRST_LAYER, 1, (Pass.FORWARD, Pass.BACKWARD_FILTER)),
    ConvolutionWork(MIDDLE_LAYER, 1, tuple(Pass)),
)


def plan_of(*work: Work, expected_seconds: float = 30.0) -> MeasurementPlan:
    return MeasurementPlan(work, expected_seconds, None, 0)


def ask(machine: Machine, *work: Work, **values: Any) -> BenchmarkJob:
    return create_job(machine=machine, plan=plan_of(*work), **{"stack": StackRequest(), **values})


@pytest.mark.django_db
def test_r26_second_job_measures_only_what_the_first_does_not() -> None:
    machine = factories.create_cpu_machine()
    first = ask(machine, ConvolutionWork(MIDDLE_LAYER, 1, (Pass.FORWARD,)), EVERYTHING[0])

    second = ask(machine, *EVERYTHING)

    items = second.plan["work"]
    assert [(item["kind"], item.get("passes")) for item in items] == [
        ("convolution", ["forward", "backward_filter"]),
        ("convolution", ["backward_data", "backward_filter"]),
    ]
    assert (second.planned_count, second.expected_seconds) == (2, 20.0)
    assert BenchmarkJob.objects.get(pk=second.pk).plan == second.plan
    assert (first.claims.count(), second.claims.count()) == (2, 4)
    assert second.events.get().message == (
        "2 pieces of work planned. 1 are being measured by other jobs."
    )


@pytest.mark.django_db
def test_r26_job_of_which_nothing_is_left_is_refused() -> None:
    machine = factories.create_cpu_machine()
    ask(machine, *EVERYTHING)

    with pytest.raises(JobRefusedError, match="being measured by other jobs already"):
        ask(machine, *EVERYTHING)

    assert BenchmarkJob.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING])
def test_r26_work_is_free_again_when_its_job_has_ended(state: State) -> None:
    machine = factories.create_cpu_machine()
    job = ask(machine, *EVERYTHING)
    BenchmarkJob.objects.update(state=state)
    job.refresh_from_db()
    job_transition(job=job, to=State.CLEANING, reason=Reason.CANCELLED)
    with pytest.raises(JobRefusedError):
        ask(machine, *EVERYTHING)

    job_transition(job=job, to=State.CANCELLED)

    assert WorkClaim.objects.count() == 0
    assert ask(machine, *EVERYTHING).planned_count == 3


@pytest.mark.django_db
def test_r26_machines_of_one_device_share_layers_and_not_iterations() -> None:
    device = factories.create_device()
    first, second = (factories.create_machine(device=device) for _ in range(2))
    ask(first, *EVERYTHING)

    assert [item["kind"] for item in ask(second, *EVERYTHING).plan["work"]] == ["iteration"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "stack",
    [
        StackRequest(precision=Precision.AMP),
        StackRequest(memory_format="channels_last"),
        StackRequest(cudnn_benchmark=True),
        StackRequest(threads=2),
    ],
)
def test_r26_another_stack_is_other_work(stack: StackRequest) -> None:
    machine = factories.create_cpu_machine()
    ask(machine, *EVERYTHING)

    assert ask(machine, *EVERYTHING, stack=stack).planned_count == 3


@pytest.mark.django_db
def test_r26_ten_thousand_pieces_are_claimed_quickly() -> None:
    work = [ConvolutionWork(MIDDLE_LAYER, size + 1, tuple(Pass)) for size in range(10_000)]
    job = factories.create_job()
    start = time.perf_counter()

    assert len(claim_work(job, work, StackRequest())) == 10_000

    seconds = time.perf_counter() - start
    assert WorkClaim.objects.count() == 30_000
    print(f"30,000 timings claimed in {seconds:.1f} s")
    assert seconds < 20


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_r26_ten_racing_jobs_share_the_work_among_them() -> None:
    """Each orders the work in its own way, and none waits for another in a circle."""
    machine = factories.create_cpu_machine()
    work = [ConvolutionWork(MIDDLE_LAYER, size + 1, tuple(Pass)) for size in range(200)]
    begin = threading.Barrier(10)
    made: list[BenchmarkJob] = []
    refused: list[str] = []
    errors: list[BaseException] = []

    def race(number: int) -> None:
        mine = work[number * 10 :] + work[: number * 10]
        begin.wait()
        try:
            made.append(ask(machine, *(mine if number % 2 else mine[::-1])))
        except JobRefusedError as error:
            refused.append(str(error))
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=race, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert errors == []
    assert len(made) + len(refused) == 10
    planned = [
        (item["batch_size"], operation)
        for job in BenchmarkJob.objects.all()
        for item in job.plan["work"]
        for operation in item["passes"]
    ]
    assert len(planned) == len(set(planned)) == 600
    assert WorkClaim.objects.count() == 600


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_r26_a_form_sent_ten_times_at_once_makes_one_job() -> None:
    machine = factories.create_cpu_machine()
    begin = threading.Barrier(10)
    made: list[BenchmarkJob] = []
    errors: list[BaseException] = []

    def send() -> None:
        begin.wait()
        try:
            made.append(ask(machine, *EVERYTHING, idempotency_key="form-1"))
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert errors == []
    assert len({job.pk for job in made}) == 1
    assert (len(made), BenchmarkJob.objects.count()) == (10, 1)
