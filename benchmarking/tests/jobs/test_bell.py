"""Who is told of the next step, and what the sweeper finds when a message was lost."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from pytest_django.fixtures import DjangoAssertNumQueries

from benchmarking.jobs.advance import advance_job, due_job_ids
from benchmarking.jobs.lifecycle import State, cancel_job
from benchmarking.models import (
    BenchmarkJob,
    Machine,
)
from benchmarking.tests import factories
from benchmarking.tests.jobs.driving import (
    NOON,
    Travel,
    advance_until,
)
from benchmarking.tests.jobs.fake_host import FakeHost

pytestmark = pytest.mark.django_db


def test_every_step_rings_for_the_next_and_the_last_one_does_not(
    job: BenchmarkJob, host: FakeHost, clock: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[tuple[uuid.UUID, float]] = []

    def ring(job_id: uuid.UUID, delay_seconds: float) -> None:
        rung.append((job_id, delay_seconds))

    # The test's own transaction never commits.
    monkeypatch.setattr("django.db.transaction.on_commit", lambda act, **options: act())
    for expected_seconds in (0.0, 0.0, 1.0):
        advance_job(job.pk, host=host, ring=ring)
        assert rung.pop() == (job.pk, expected_seconds)
    cancel_job(job)
    while (delay_seconds := advance_job(job.pk, host=host, ring=ring)) is not None:
        assert rung.pop() == (job.pk, delay_seconds)
        clock.shift(delay_seconds)
    assert rung == []


def test_sweep_finds_due_jobs_that_nobody_has_in_hand(machine: Machine, clock: Travel) -> None:
    def job_with(**values: Any) -> uuid.UUID:
        return factories.create_job(machine=machine, **values).pk

    late = job_with(due_at=NOON - timedelta(hours=1))
    due = job_with(due_at=NOON)
    abandoned = job_with(
        due_at=NOON - timedelta(minutes=1),
        lease_token=uuid.uuid4(),
        lease_expires_at=NOON - timedelta(seconds=1),
    )
    job_with(due_at=NOON + timedelta(seconds=1))
    job_with(lease_token=uuid.uuid4(), lease_expires_at=NOON + timedelta(seconds=1))
    for state in BenchmarkJob.FINAL_STATES:
        job_with(state=state)

    assert due_job_ids() == [late, abandoned, due]


def test_sweep_costs_one_query_however_many_jobs_there_are(
    machine: Machine, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(50):
        factories.create_job(machine=machine)

    with django_assert_num_queries(1):
        assert len(due_job_ids()) == 50


def test_looking_at_a_running_job_does_not_load_its_plan(
    job: BenchmarkJob,
    host: FakeHost,
    clock: Travel,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    advance_until(job, host, clock, State.RUNNING)

    with django_assert_max_num_queries(4) as queries:
        advance_job(job.pk, host=host)

    assert not any('"plan"' in query["sql"] for query in queries.captured_queries)
