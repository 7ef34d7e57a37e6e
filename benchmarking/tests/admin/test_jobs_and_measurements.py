"""Jobs, runs and timings in the admin."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from benchmarking.jobs.lifecycle import State, write_event
from benchmarking.models import BenchmarkJob, ConvolutionLayer, IterationTiming, LayerTiming
from benchmarking.probe.plan import ConvolutionWork, StackRequest, build_plan
from benchmarking.specs import DeviceKind, Pass
from benchmarking.tests.factories import (
    MIDDLE_LAYER,
    create_architecture,
    create_failed_timing,
    create_job,
    create_run,
    create_timings,
)

pytestmark = pytest.mark.django_db

CHANGE_LIST = "admin:benchmarking_{}_changelist"
CHANGE = "admin:benchmarking_{}_change"


@pytest.fixture
def jobs() -> list[BenchmarkJob]:
    running = create_job(state=State.RUNNING, planned_count=10, stored_count=3, failed_count=1)
    write_event(running, old_state="booting", new_state="running", message="off it goes")
    return [running, create_job(machine=running.machine, state=State.SUCCEEDED)]


def cancel(client: Client, jobs: list[BenchmarkJob]) -> str:
    return act(client, "cancel", jobs)


def act(client: Client, action: str, jobs: list[BenchmarkJob]) -> str:
    response = client.post(
        reverse(CHANGE_LIST.format("benchmarkjob")),
        {"action": action, "_selected_action": [str(job.pk) for job in jobs]},
        follow=True,
    )
    return response.content.decode()


def test_jobs_are_listed_with_their_progress(
    admin_client: Client, jobs: list[BenchmarkJob]
) -> None:
    page = admin_client.get(reverse(CHANGE_LIST.format("benchmarkjob"))).content.decode()

    assert "3 of 10, 1 failed" in page


def test_job_shows_its_events_and_neither_plan_nor_lease(
    admin_client: Client, jobs: list[BenchmarkJob]
) -> None:
    page = admin_client.get(
        reverse(CHANGE.format("benchmarkjob"), args=[jobs[0].pk])
    ).content.decode()

    assert "off it goes" in page
    assert "lease_token" not in page
    assert 'field-plan"' not in page


def test_action_cancels_what_is_not_over(admin_client: Client, jobs: list[BenchmarkJob]) -> None:
    page = cancel(admin_client, jobs)

    assert "1 of 2 jobs will end; the others had ended already." in page
    running, ended = (BenchmarkJob.objects.get(pk=job.pk) for job in jobs)
    assert (running.state, running.reason) == (State.CLEANING, "cancelled")
    assert ended.state == State.SUCCEEDED
    event = running.events.last()
    assert event is not None
    assert event.message == "Cancelled by admin in the admin."


def test_r11_action_makes_jobs_of_what_is_missing(admin_client: Client) -> None:
    plan = build_plan(
        machine="local",
        kind=DeviceKind.CPU,
        stack=StackRequest(),
        work=[ConvolutionWork(MIDDLE_LAYER, 1, (Pass.FORWARD,))],
        time_budget_seconds=3600.0,
    )
    ended = create_job(state=State.FAILED, reason="probe_died", plan=plan, planned_count=1)
    running = create_job(machine=ended.machine, state=State.RUNNING)

    page = act(admin_client, "retry", [ended, running])

    successor = BenchmarkJob.objects.get(retry_of=ended)
    assert f'<a href="/jobs/{successor.pk}/">A job</a> measures what' in page
    assert "The job is not over yet; cancel it first, or wait for its end." in page
    assert (successor.planned_count, str(successor.created_by)) == (1, "admin")
    assert "Another job" not in page
    assert "goes on with it already" in act(admin_client, "retry", [ended])
    assert BenchmarkJob.objects.count() == 3


def test_job_in_the_admin_leads_to_its_page(admin_client: Client, jobs: list[BenchmarkJob]) -> None:
    change = reverse(CHANGE.format("benchmarkjob"), args=[jobs[0].pk])
    assert f'href="/jobs/{jobs[0].pk}/"' in admin_client.get(change).content.decode()


def test_who_may_only_look_cannot_cancel(client: Client, jobs: list[BenchmarkJob]) -> None:
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_benchmarkjob"))
    client.force_login(viewer)

    assert "3 of 10" in client.get(reverse(CHANGE_LIST.format("benchmarkjob"))).content.decode()
    cancel(client, jobs)
    act(client, "retry", jobs)

    assert BenchmarkJob.objects.get(pk=jobs[0].pk).state == State.RUNNING
    assert BenchmarkJob.objects.count() == 2


@pytest.mark.parametrize(
    "model",
    [
        "softwarestack",
        "measurementrun",
        "layertiming",
        "iterationtiming",
        "failedtiming",
    ],
)
def test_measurements_can_be_read_and_not_changed(admin_client: Client, model: str) -> None:
    run = create_run()
    architecture = create_architecture(slug="tinynet")
    create_timings(run=run, architecture=architecture, batch_sizes=[7])
    create_failed_timing(run=run, layer=ConvolutionLayer.objects.first(), batch_size=7)
    objects = {
        "softwarestack": run.stack,
        "measurementrun": run,
        "layertiming": LayerTiming.objects.first(),
        "iterationtiming": IterationTiming.objects.first(),
        "failedtiming": run.failures.first(),
    }
    pk = objects[model].pk

    page = admin_client.get(reverse(CHANGE_LIST.format(model)))
    assert page.status_code == 200
    assert f"{pk}" in page.content.decode()
    change = reverse(CHANGE.format(model), args=[pk])
    assert 'name="_save"' not in admin_client.get(change).content.decode()
    assert admin_client.post(change, {}).status_code == 403
    add = reverse(f"admin:benchmarking_{model}_add")
    assert admin_client.get(add).status_code == 403
    delete = reverse(f"admin:benchmarking_{model}_delete", args=[pk])
    assert admin_client.post(delete, {"post": "yes"}).status_code == 403


def test_list_of_timings_costs_few_queries(
    admin_client: Client, django_assert_max_num_queries: pytest.FixtureRequest
) -> None:
    run = create_run()
    create_timings(run=run, architecture=create_architecture(), batch_sizes=range(1, 8))

    with django_assert_max_num_queries(12):
        admin_client.get(reverse(CHANGE_LIST.format("layertiming")))
