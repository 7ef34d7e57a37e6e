"""Celery's way into the jobs: thin, and lost messages do no harm."""

from __future__ import annotations

import uuid
from typing import Any
from unittest import mock

import pytest
from celery import Task, current_app
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from benchmarking import tasks
from benchmarking.apps import BenchmarkingConfig
from benchmarking.jobs.lifecycle import State
from benchmarking.jobs.reaper import ReapReport
from benchmarking.jobs.secrets import create_job_secret
from benchmarking.models import BenchmarkJob, Heartbeat, JobSecret
from benchmarking.tests.factories import create_instance, create_job
from benchmarking.tests.jobs.fake_host import FakeHost


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[str, ...], float]]:
    sent: list[tuple[tuple[str, ...], float]] = []

    def keep(arguments: tuple[str, ...], countdown: float = 0.0, **_: Any) -> None:
        sent.append((arguments, countdown))

    monkeypatch.setattr(tasks.advance_benchmark_job, "apply_async", keep)
    monkeypatch.setattr(tasks.advance_benchmark_job, "delay", lambda *arguments: keep(arguments))
    return sent


@pytest.mark.django_db
def test_task_advances_the_job_and_rings_for_the_next_step(
    messages: list[tuple[tuple[str, ...], float]],
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    monkeypatch.setattr("benchmarking.jobs.advance.host_of", lambda job: FakeHost())
    job = create_job(plan={"time_budget_seconds": 60.0, "work": []})

    with django_capture_on_commit_callbacks(execute=True):
        tasks.advance_benchmark_job(str(job.pk))

    assert BenchmarkJob.objects.get().state == State.LAUNCHING
    assert messages == [((str(job.pk),), 0.0)]


@pytest.mark.django_db
def test_sweep_rings_for_every_job_that_is_due(
    messages: list[tuple[tuple[str, ...], float]],
) -> None:
    machine = create_job().machine
    create_job(machine=machine)
    create_job(machine=machine, state=State.SUCCEEDED)

    tasks.sweep_benchmark_jobs()

    assert {uuid.UUID(arguments[0]) for arguments, _ in messages} == set(
        BenchmarkJob.objects.exclude(state=State.SUCCEEDED).values_list("pk", flat=True)
    )


def test_long_waits_are_left_to_the_sweep(messages: list[tuple[tuple[str, ...], float]]) -> None:
    job_id = uuid.uuid4()

    tasks.ring_for_job(job_id, 5.0)
    tasks.ring_for_job(job_id, 600.0)

    assert messages == [((str(job_id),), 5.0)]


@pytest.mark.django_db
def test_r25_every_sweep_is_a_heartbeat(messages: list[tuple[tuple[str, ...], float]]) -> None:
    tasks.sweep_benchmark_jobs()

    assert Heartbeat.objects.get().name == "beat"


@pytest.mark.django_db
def test_r20_the_reaper_closes_the_books_and_erases_keys(settings: Settings) -> None:
    settings.EC2_REGIONS = []
    instance = create_instance(state="lost", region="")
    create_job_secret(instance.job)
    BenchmarkJob.objects.update(state=State.FAILED)
    with mock.patch("benchmarking.jobs.reaper.reap_instances", return_value=ReapReport()):
        tasks.reap_cloud_instances()

    instance.refresh_from_db()
    assert instance.cost_usd is not None
    assert bytes(JobSecret.objects.get().login_key) == b""


@pytest.mark.django_db
def test_automatic_benchmarks_are_off(messages: list[tuple[tuple[str, ...], float]]) -> None:
    tasks.launch_automatic_benchmark()

    assert BenchmarkJob.objects.count() == 0


@pytest.mark.parametrize(
    "task",
    [
        tasks.advance_benchmark_job,
        tasks.sweep_benchmark_jobs,
        tasks.reap_cloud_instances,
        tasks.collect_requests,
        tasks.launch_automatic_benchmark,
    ],
)
def test_tasks_go_to_the_queue_of_the_benchmarks(task: Task) -> None:
    assert current_app.amqp.router.route({}, task.name)["queue"].name == "bench"


def test_beat_sweeps_every_fifteen_seconds() -> None:
    entry = BenchmarkingConfig.beat_schedule["sweep benchmark jobs"]

    assert entry["schedule"] == 15.0
    assert entry["task"] == tasks.sweep_benchmark_jobs.name


def test_beat_reaps_every_five_minutes() -> None:
    entry = BenchmarkingConfig.beat_schedule["reap cloud instances"]

    assert entry["schedule"] == 300.0
    assert entry["task"] == tasks.reap_cloud_instances.name
