"""States, transitions and reasons."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pytest
import time_machine
from django.db import IntegrityError, transaction

from benchmarking.jobs.lifecycle import (
    ALLOWED_TRANSITIONS,
    State,
    TransitionError,
    cancel_job,
    job_transition,
)
from benchmarking.jobs.reasons import Reason
from benchmarking.models import BenchmarkJob, JobEvent
from benchmarking.tests.factories import create_cpu_machine, create_job

pytestmark = pytest.mark.django_db

FINAL_STATES = set(BenchmarkJob.FINAL_STATES)


def stored(job: BenchmarkJob) -> BenchmarkJob:
    return BenchmarkJob.objects.get(pk=job.pk)


def test_every_state_has_its_transitions() -> None:
    assert set(ALLOWED_TRANSITIONS) == set(State)
    for state, following in ALLOWED_TRANSITIONS.items():
        if state in FINAL_STATES:
            assert following == frozenset()
        elif state != State.CLEANING:
            assert State.CLEANING in following
            assert not following & FINAL_STATES
    assert ALLOWED_TRANSITIONS[State.CLEANING] == FINAL_STATES


@time_machine.travel(datetime(2026, 5, 1, 12, tzinfo=UTC), tick=False)
def test_transition_writes_state_and_event() -> None:
    job = create_job()

    assert job_transition(
        job=job, to=State.LAUNCHING, message="its turn", changes={"expected_seconds": 7.0}
    )

    assert (job.state, job.expected_seconds) == (State.LAUNCHING, 7.0)
    assert stored(job).state == State.LAUNCHING
    assert stored(job).due_at == datetime(2026, 5, 1, 12, tzinfo=UTC)
    event = JobEvent.objects.get()
    assert (event.job, event.old_state, event.new_state) == (job, "queued", "launching")
    assert (event.reason, event.message) == ("", "its turn")
    assert event.at == datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_of_two_transitions_from_one_state_the_second_is_dropped() -> None:
    job = create_job()
    stale = stored(job)
    assert job_transition(job=job, to=State.CLEANING, reason=Reason.CANCELLED)

    assert not job_transition(job=stale, to=State.LAUNCHING)

    assert stored(job).state == State.CLEANING
    assert stale.state == State.QUEUED
    assert JobEvent.objects.count() == 1


def test_transition_under_a_lost_lease_is_dropped() -> None:
    token = uuid.uuid4()
    job = create_job(lease_token=token)

    assert not job_transition(job=job, to=State.LAUNCHING, lease_token=uuid.uuid4())
    assert job_transition(job=job, to=State.LAUNCHING, lease_token=token)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (State.QUEUED, State.RUNNING),
        (State.RUNNING, State.SUCCEEDED),
        (State.SUCCEEDED, State.CLEANING),
        (State.CLEANING, State.RUNNING),
        (State.COLLECTING, State.RUNNING),
    ],
)
def test_forbidden_transitions_are_faults(old: State, new: State) -> None:
    job = create_job(state=old)

    with pytest.raises(TransitionError, match=f"a job cannot go from {old} to {new}"):
        job_transition(job=job, to=new, reason=Reason.COMPLETED)
    assert stored(job).state == old


def test_cleaning_needs_a_reason() -> None:
    with pytest.raises(TransitionError, match="for a reason"):
        job_transition(job=create_job(), to=State.CLEANING)


def test_final_state_is_that_of_the_reason() -> None:
    job = create_job(state=State.CLEANING, reason=Reason.BAD_OUTPUT.value)

    with pytest.raises(TransitionError, match="because of bad_output is not succeeded"):
        job_transition(job=job, to=State.SUCCEEDED)
    assert job_transition(job=job, to=State.FAILED)
    assert job.ended_at is not None
    assert stored(job).reason == "bad_output"


@pytest.mark.parametrize("state", [s for s in State if s not in FINAL_STATES | {State.CLEANING}])
def test_cancel_works_in_every_state(state: State) -> None:
    job = create_job(state=state)

    assert cancel_job(job, message="Cancelled by ann.")

    assert (stored(job).state, stored(job).reason) == (State.CLEANING, "cancelled")
    assert JobEvent.objects.get().message == "Cancelled by ann."


@pytest.mark.parametrize("state", [*FINAL_STATES, State.CLEANING])
def test_cancel_leaves_what_ends_anyway(state: State) -> None:
    job = create_job(state=state, reason=Reason.COMPLETED.value)

    assert not cancel_job(job)

    assert (stored(job).state, stored(job).reason) == (state, "completed")


def test_cancel_sees_the_state_that_the_job_has_now() -> None:
    job = create_job()
    stale = stored(job)
    job_transition(job=job, to=State.LAUNCHING)

    assert cancel_job(stale)

    assert JobEvent.objects.last().old_state == "launching"


def test_database_lets_one_local_job_run_at_a_time() -> None:
    machine = create_cpu_machine()
    create_job(machine=machine, state=State.RUNNING)
    create_job(machine=machine, state=State.QUEUED)
    create_job(machine=machine, state=State.CLEANING)

    with pytest.raises(IntegrityError), transaction.atomic():
        create_job(machine=machine, state=State.BOOTING)
    create_job(machine=machine, state=State.BOOTING, host_kind="ec2")
