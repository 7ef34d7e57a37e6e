"""Watching a job: what the page says in each state, what polls carry, and what buttons do."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from benchmarking.jobs.explanations import STATE_SENTENCES
from benchmarking.jobs.lifecycle import State, write_event
from benchmarking.jobs.reasons import Reason
from benchmarking.models import BenchmarkJob, CloudInstance
from benchmarking.probe.plan import ConvolutionWork, IterationWork, StackRequest, build_plan
from benchmarking.specs import DeviceKind, Pass
from benchmarking.tests.factories import MIDDLE_LAYER, create_job, create_run
from predictions.tests.jobs.conftest import cloud_job, launch, text_of

WORK = (
    IterationWork("resnet50", 224, False, 1),
    ConvolutionWork(MIDDLE_LAYER, 1, (Pass.FORWARD, Pass.BACKWARD_FILTER)),
)


@pytest.fixture
def job(operator, catalogue) -> BenchmarkJob:
    """A job on a rented machine that began to measure two minutes ago."""
    machine = catalogue["aws-g4dn.xlarge"]
    plan = build_plan(
        machine=machine.slug,
        kind=DeviceKind.CUDA,
        stack=StackRequest(),
        work=WORK,
        time_budget_seconds=1800.0,
    )
    job = cloud_job(machine, plan=plan)
    write_event(job, old_state="queued", new_state="launching", message="us-east-1b is asked.")
    write_event(
        job, old_state="booting", new_state="running", at=timezone.now() - timedelta(0, 120)
    )
    return job


def part(client: Client, job: BenchmarkJob, **query: object):
    return client.get(f"/jobs/{job.pk}/progress/", query, headers={"HX-Request": "true"})


def newest_event(job: BenchmarkJob) -> int:
    return job.events.order_by("-id").values_list("id", flat=True)[0]


# What the page says ---------------------------------------------------------------------------


def test_a_running_job_shows_how_far_it_is_and_what_it_has_cost(job, client):
    launch(job, minutes=30)
    text = text_of(client.get(f"/jobs/{job.pk}/"))
    assert "Benchmark of aws-g4dn.xlarge" in text
    assert "Amazon EC2, on demand, engine torch." in text
    assert "Running The machine measures. Each timing is stored as it is fetched." in text
    assert "Measured 9 of 40 1 failed" in text
    # Ten of forty pieces in two minutes; ten minutes were expected.
    assert "Time left about 7 min" in text
    assert "Last measured resnet50 x 8" in text
    assert "Cost so far $0.26 at most $0.79" in text
    assert "1 CNN, layers and whole iterations: resnet50" in text
    assert "us-east-1b is asked." in text


def test_a_job_links_to_its_machine_its_cnns_and_its_results(job, client):
    run = create_run(machine=job.machine, job=job)
    page = client.get(f"/jobs/{job.pk}/").content.decode()
    for path in (
        "/machines/aws-g4dn.xlarge/",
        "/architectures/resnet50/224/",
        f"/api/v1/timings/layers/?run={run.pk}",
        f"/api/v1/timings/iterations/?run={run.pk}",
    ):
        assert f'href="{path}"' in page
        assert client.get(path).status_code == 200


@pytest.mark.parametrize("state", State.values)
def test_every_state_is_explained_in_plain_words(job, client, state):
    reasons = {"succeeded": "completed", "failed": "deadline", "cancelled": "cancelled"}
    BenchmarkJob.objects.update(state=state, reason=reasons.get(state, ""))
    text = text_of(client.get(f"/jobs/{job.pk}/"))
    assert STATE_SENTENCES[State(state)] in text
    if state in reasons:
        assert Reason(reasons[state]).outcome.sentence in text
        assert "Time left" not in text


def test_a_local_job_has_no_cost(operator, client):
    text = text_of(client.get(f"/jobs/{create_job(state='running', planned_count=3).pk}/"))
    assert "This machine, engine torch." in text
    assert "Cost" not in text and "$" not in text


def test_a_traceback_is_folded_behind_its_last_line(job, client):
    write_event(job, message='Traceback (most recent call last):\n  File "x"\nOSError: gone')
    page = client.get(f"/jobs/{job.pk}/").content.decode()
    assert re.search(r"OSError: gone<details><summary>All of it</summary>", page)


def test_an_unknown_job_is_not_found(operator, client):
    for path in ("", "progress/"):
        response = client.get(f"/jobs/00000000-0000-4000-8000-000000000000/{path}")
        assert response.status_code == 404
        assert "No such page" in response.content.decode()


def test_visitors_are_sent_to_log_in_and_others_are_refused(job, catalogue):
    client = Client()
    assert client.get(f"/jobs/{job.pk}/")["Location"] == f"/admin/login/?next=/jobs/{job.pk}/"
    client.force_login(User.objects.create_user("visitor"))
    for path in ("", "progress/"):
        assert client.get(f"/jobs/{job.pk}/{path}").status_code == 403
    for path in ("cancel/", "retry/"):
        assert client.post(f"/jobs/{job.pk}/{path}").status_code == 403
    assert BenchmarkJob.objects.get().state == "running"


# Polls ----------------------------------------------------------------------------------------


def test_u7_a_poll_without_news_carries_no_events_and_then_nothing(job, client):
    first = part(client, job, seen=newest_event(job), state="running")
    assert "9 of 40" in text_of(first)
    assert "What happened" not in text_of(first) and b"csrf" not in first.content
    assert first["Cache-Control"] == "private, no-cache"
    again = client.get(
        f"/jobs/{job.pk}/progress/",
        {"seen": newest_event(job), "state": "running"},
        headers={"HX-Request": "true", "If-None-Match": first["ETag"]},
    )
    assert (again.status_code, again.content) == (304, b"")


def test_u7_a_new_state_is_announced_with_its_events_and_buttons(job, client):
    seen = newest_event(job)
    write_event(job, message="A note.")
    note = part(client, job, seen=seen, state="running").content.decode()
    assert "A note." in note and 'id="job-actions" hx-swap-oob="true"' in note
    # A note is no change of the state, and nobody is told of it aloud.
    assert 'role="status"' not in note
    BenchmarkJob.objects.update(state="collecting")
    write_event(job, old_state="running", new_state="collecting")
    change = part(client, job, seen=seen, state="running").content.decode()
    assert (
        '<p class="visually-hidden" role="status" id="announcement" hx-swap-oob="innerHTML">'
        "Collecting. The benchmark has ended; the last timings are fetched.</p>" in change
    )


def test_u7_polling_stops_at_the_end(job, client):
    assert 'hx-trigger="every 5s"' in part(client, job).content.decode()
    BenchmarkJob.objects.update(state="succeeded", reason="completed", ended_at=timezone.now())
    for response in (part(client, job), client.get(f"/jobs/{job.pk}/")):
        assert "hx-get" not in response.content.decode()
        assert "htmx" not in re.sub("hx-swap-oob", "", response.content.decode())


def test_a_page_whose_session_is_over_is_loaded_anew_instead_of_showing_the_login_in_a_part(job):
    response = part(Client(), job)
    assert (response.status_code, response["HX-Refresh"], response.content) == (200, "true", b"")


def test_what_a_job_costs_grows_while_nothing_else_happens(job, client):
    launch(job, minutes=0)
    query = {"seen": newest_event(job), "state": "running"}
    first = part(client, job, **query)
    with time_machine.travel(timezone.now() + timedelta(minutes=10), tick=False):
        later = part(client, job, **query)
    # A minute is the least that is billed.
    assert "Cost so far below $0.01" in text_of(first)
    assert "Cost so far $0.09" in text_of(later)
    assert first["ETag"] != later["ETag"]


# Buttons --------------------------------------------------------------------------------------


def test_r6_cancel_ends_the_job_and_names_who_asked(
    job, client, monkeypatch, django_capture_on_commit_callbacks
):
    rung = []
    monkeypatch.setattr("predictions.job_actions.ring_for_job", lambda *call: rung.append(call))
    with django_capture_on_commit_callbacks(execute=True):
        response = client.post(f"/jobs/{job.pk}/cancel/")
    assert response["Location"] == f"/jobs/{job.pk}/"
    job.refresh_from_db()
    assert (job.state, job.reason) == ("cleaning", "cancelled")
    assert job.events.last().message == "Cancelled by operator."
    assert rung == [(job.pk, 0.0)]
    text = text_of(client.get(f"/jobs/{job.pk}/"))
    assert "Cancel the job" not in text and "Cleaning up" in text
    client.post(f"/jobs/{job.pk}/cancel/")
    assert job.events.filter(new_state="cleaning").count() == 1


def test_r11_retry_makes_one_job_of_what_is_missing(job, client):
    BenchmarkJob.objects.update(state="failed", reason="instance_lost", ended_at=timezone.now())
    page = text_of(client.get(f"/jobs/{job.pk}/"))
    assert "Retry: measure what is missing for at most $0.79" in page
    answers = {client.post(f"/jobs/{job.pk}/retry/")["Location"] for _ in range(2)}
    retried = BenchmarkJob.objects.get(retry_of=job)
    assert answers == {f"/jobs/{retried.pk}/"}
    assert (retried.host_kind, retried.planned_count, retried.maximum_usd) == (
        "ec2",
        2,
        Decimal("0.79"),
    )
    assert "To the job that retries it" in text_of(client.get(f"/jobs/{job.pk}/"))
    assert "It retries an earlier job" in text_of(client.get(f"/jobs/{retried.pk}/"))


def test_a_job_that_runs_is_not_retried(job, client):
    response = client.post(f"/jobs/{job.pk}/retry/")
    assert response.status_code == 409
    assert "The job is not over yet" in text_of(response)
    assert BenchmarkJob.objects.count() == 1


def test_buttons_are_for_who_may_press_them_and_by_post_only(job, client):
    client.force_login(User.objects.create_user("onlooker", is_staff=True))
    assert "Cancel the job" not in text_of(client.get(f"/jobs/{job.pk}/"))
    for name in ("cancel", "retry"):
        assert client.post(f"/jobs/{job.pk}/{name}/").status_code == 403
        assert client.get(f"/jobs/{job.pk}/{name}/").status_code == 405
    assert BenchmarkJob.objects.get().state == "running"


def test_buttons_need_the_token_of_their_form(job, operator):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(operator)
    assert strict.post(f"/jobs/{job.pk}/cancel/").status_code == 403
    assert BenchmarkJob.objects.get().state == "running"


# Queries --------------------------------------------------------------------------------------


def test_the_number_of_queries_does_not_grow_with_the_events(
    job, client, django_assert_max_num_queries
):
    for number in range(60):
        write_event(job, message=f"note {number}")
    with django_assert_max_num_queries(17):
        page = client.get(f"/jobs/{job.pk}/")
    text = text_of(page)
    assert "note 59" in text and "note 35" in text and "note 34" not in text
    assert "Page 1 of 3" in text
    assert "note 34" in text_of(client.get(f"/jobs/{job.pk}/?events=2"))
    with django_assert_max_num_queries(11):
        part(client, job, seen=newest_event(job), state="running")


# The list and the spending --------------------------------------------------------------------


class TestList:
    def test_jobs_stand_with_their_state_reason_cost_and_maker(self, job, client, operator):
        launch(job, minutes=30)
        create_job(machine=job.machine, state="failed", reason="deadline", created_by=operator)
        text = text_of(client.get("/jobs/"))
        assert "2 jobs, newest first" in text
        assert f"Failed {Reason.DEADLINE.outcome.sentence} 0 of 0" in text
        assert "nothing paid" in text and "by operator" in text
        assert "Running 9 of 40 1 failed resnet50 x 8 $0.26" in text
        assert "Live now 1 of 2 machines $0.53 of $10.00 an hour" in text

    def test_filters_keep_some_and_unknown_ones_keep_all(self, job, catalogue, client):
        create_job(machine=catalogue["reference-cpu"], state="succeeded", reason="completed")
        assert "1 job," in text_of(client.get("/jobs/?state=running"))
        assert "1 job," in text_of(client.get("/jobs/?machine=reference-cpu&state=succeeded"))
        assert "No job is in this state" in text_of(client.get("/jobs/?state=queued"))
        assert "2 jobs," in text_of(client.get("/jobs/?state=nonsense&machine=%00&page=x"))

    def test_a_page_holds_fifty(self, job, client, django_assert_max_num_queries):
        for _ in range(50):
            cloud_job(job.machine, state="failed", reason="deadline")
        with django_assert_max_num_queries(11):
            text = text_of(client.get("/jobs/"))
        assert "51 jobs, page 1 of 2, newest first" in text
        second = client.get("/jobs/?state=failed&page=2").content.decode()
        assert "50 jobs" in second
        older = client.get("/jobs/?page=2").content.decode()
        assert "page 2 of 2" in older
        assert 'href="?state=&amp;machine=&amp;page=1"' in older


class TestSpending:
    def test_this_month_by_job_and_machine_with_what_is_live(self, job, catalogue, client):
        launch(job, minutes=30)
        other = cloud_job(catalogue["aws-p4d.24xlarge"], state="failed", reason="deadline")
        now = timezone.now()
        launch(
            other,
            state=CloudInstance.State.TERMINATED,
            cost_usd=Decimal("5.25"),
            terminated_at=now,
        )
        text = text_of(client.get("/jobs/spending/"))
        assert "Spent this month $5.25" in text
        assert "Left this month $43.96 of $50.00" in text
        assert "g4dn.xlarge i-0123456789abcdef0 us-east-1b Running $0.26 $0.526/h" in text
        assert re.search(r"aws-p4d\.24xlarge, \d+ \w+, [\d:]+ Failed 1 \$5\.25", text)
        assert "A job $10.00 BENCHMARK_USD_PER_JOB" in text

    def test_last_month_does_not_count(self, job, client):
        launch(
            job,
            state=CloudInstance.State.TERMINATED,
            cost_usd=Decimal("5.25"),
            terminated_at=timezone.now() - timedelta(days=32),
        )
        text = text_of(client.get("/jobs/spending/"))
        assert "Spent this month $0.00" in text
        assert "No job has rented a machine this month." in text

    def test_r20_at_the_cap_the_page_says_that_launches_stop(self, job, client, settings):
        settings.BENCHMARK_USD_PER_MONTH = Decimal("0.79")
        launch(job)
        for path in ("/jobs/spending/", "/jobs/"):
            assert "is used up: new launches stop until the month ends" in text_of(client.get(path))
        settings.BENCHMARK_USD_PER_MONTH = Decimal(0)
        assert "BENCHMARK_USD_PER_MONTH is 0" in text_of(client.get("/jobs/spending/"))
        settings.BENCHMARKS_ENABLED = False
        assert "Benchmarks are switched off" in text_of(client.get("/jobs/spending/"))

    def test_the_number_of_queries_does_not_grow(self, job, client, django_assert_max_num_queries):
        for number in range(20):
            launch(
                cloud_job(job.machine, state="failed", reason="deadline"),
                client_token=str(number),
                state=CloudInstance.State.TERMINATED,
                terminated_at=timezone.now(),
                cost_usd=Decimal("0.1"),
            )
        with django_assert_max_num_queries(7):
            client.get("/jobs/spending/")
