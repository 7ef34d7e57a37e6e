"""Starting, watching, cancelling and retrying jobs by programs."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from django.contrib.auth.models import User
from rest_framework.authtoken.models import Token

from benchmarking.jobs.claims import release_claims
from benchmarking.jobs.lifecycle import write_event
from benchmarking.models import BenchmarkJob
from predictions.job_query import JOB_OPTION_NAMES
from predictions.tests.jobs.conftest import cloud_job, launch

JOBS = "/api/v1/jobs/"
WANTED = {
    "machine": "aws-g4dn.xlarge",
    "architecture": ["resnet50"],
    "batch_sizes": "1,2",
    "host": "ec2",
    "max_usd": 0.75,
}


def token_of(user: User) -> dict[str, str]:
    return {"Authorization": f"Token {Token.objects.create(user=user).key}"}


@pytest.fixture
def headers(operator, client) -> dict[str, str]:
    client.logout()
    return token_of(operator)


def start(client, headers, wanted=WANTED, key="my key"):
    return client.post(
        JOBS,
        json.dumps(wanted),
        content_type="application/json",
        headers={**headers, **({"Idempotency-Key": key} if key else {})},
    )


def problem(response) -> dict[str, str]:
    """The sentences of a refusal by parameter, or its detail where it names none."""
    assert response["Content-Type"] == "application/problem+json"
    document = json.loads(response.content)
    assert document["status"] == response.status_code
    return {one["parameter"]: one["detail"] for one in document["errors"]} or {
        "": document["detail"]
    }


# Quote ----------------------------------------------------------------------------------------


def test_u10_a_quote_says_time_cost_and_maximum_and_starts_nothing(headers, client):
    query = {"machine": "aws-g4dn.xlarge", "architecture": "resnet50", "batch_sizes": "1,2"}
    quote = client.get(f"{JOBS}quote/", query, headers=headers).json()
    assert (quote["timings"], quote["pieces_of_work"], quote["already_measured"]) == (18, 8, 0)
    assert (quote["host"], quote["price"], quote["usd_per_hour"]) == ("ec2", "on-demand", 0.526)
    assert (quote["price_region"], quote["price_as_of"]) == ("us-east-1", "2026-01-01")
    assert quote["time_budget_seconds"] == 1800.0 < quote["longest_seconds"]
    assert quote["maximum_usd"] == pytest.approx(0.526 * quote["longest_seconds"] / 3600, abs=0.01)
    assert 0 < quote["expected_usd"] < quote["maximum_usd"]
    assert (quote["can_start"], quote["refusal"], quote["left_this_month_usd"]) == (True, None, 50)
    assert quote["stack"] == "torch of unknown version · fp32"
    assert BenchmarkJob.objects.count() == 0


def test_a_quote_says_why_nothing_can_be_started(headers, client, settings):
    settings.BENCHMARK_USD_PER_MONTH = Decimal(0)
    quote = client.get(f"{JOBS}quote/?machine=aws-g4dn.xlarge", headers=headers).json()
    assert quote["can_start"] is False
    assert quote["refusal"].startswith("BENCHMARK_USD_PER_MONTH is 0")
    retired = client.get(f"{JOBS}quote/?machine=aws-old.xlarge&host=ec2", headers=headers).json()
    assert retired["refusal"].startswith("aws-old.xlarge cannot be rented any more")
    assert (retired["maximum_usd"], retired["deadline"]) == (None, None)


def test_a_wrong_quote_names_the_parameter(headers, client):
    response = client.get(f"{JOBS}quote/?machine=aws-g4dn.xlarg&rounds=0", headers=headers)
    assert set(problem(response)) == {"machine", "rounds"}


# Start ----------------------------------------------------------------------------------------


def test_a_job_is_started_for_at_most_what_is_said(headers, operator, client):
    response = start(client, headers)
    job = BenchmarkJob.objects.get()
    answer = response.json()
    assert (response.status_code, answer["id"]) == (201, str(job.pk))
    assert (answer["state"], answer["planned_count"], answer["maximum_usd"]) == ("queued", 8, 0.75)
    assert (job.created_by, job.maximum_usd, job.host_kind) == (operator, Decimal("0.75"), "ec2")


def test_u10_the_same_key_gives_the_same_job(headers, client):
    first, second = start(client, headers), start(client, headers)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    assert BenchmarkJob.objects.count() == 1


@pytest.mark.parametrize(
    "change",
    [
        {"machine": "aws-p4d.24xlarge", "max_usd": 9.9},
        {"batch_sizes": "3"},
        {"rounds": 2},
        {"max_usd": 0.6},
        {"price": "spot"},
    ],
)
def test_u10_a_key_that_was_used_for_anything_else_is_refused(headers, client, change):
    start(client, headers)
    other = start(client, headers, {**WANTED, **change})
    assert other.status_code == 422
    assert problem(other) == {"": "This idempotency key was used for another job; make a new one."}
    assert BenchmarkJob.objects.count() == 1


def test_u10_without_a_key_or_a_maximum_nothing_is_started(headers, client):
    without_key = start(client, headers, key="")
    assert without_key.status_code == 400
    assert problem(without_key)["Idempotency-Key"].startswith("Send an Idempotency-Key")
    assert start(client, headers, key="x" * 201).status_code == 400
    unlimited = start(client, headers, {k: v for k, v in WANTED.items() if k != "max_usd"})
    assert problem(unlimited) == {
        "max_usd": "Say what the job may cost at most; /api/v1/jobs/quote/ helps."
    }
    assert BenchmarkJob.objects.count() == 0


def test_u10_starting_needs_the_permission_and_a_token(onlooker, client):
    headers = token_of(onlooker)
    client.logout()
    assert client.get(JOBS, headers=headers).status_code == 200
    assert start(client, headers).status_code == 403
    assert start(client, {}).status_code == 401
    assert BenchmarkJob.objects.count() == 0


@pytest.mark.parametrize(
    ("change", "parameter", "sentence"),
    [
        ({"machine": "nowhere"}, "machine", "Unknown machine 'nowhere'"),
        ({"machine": None}, "machine", "Send text, a number, or a list of those."),
        ({"max_usd": True}, "max_usd", "Send text, a number, or a list of those."),
        ({"max_usd": -1}, "max_usd", "US dollars above 0"),
        ({"batch_sizes": {"from": 1}}, "batch_sizes", "Send text, a number"),
        ({"architecture": [["resnet50"]]}, "architecture", "Send text, a number"),
        ({"architecture": ["resnet5"]}, "architecture", "did you mean resnet50?"),
        ({"max_us": 1}, "max_us", "There is no option 'max_us'."),
        ({"price": "free"}, "price", "Unknown price kind 'free'"),
        ({"machine": "a\u0000b"}, "machine", "plain text"),
        ({"machine": "\ud800"}, "machine", "plain text"),
        ({"architecture": ["resnet50", "\ud800"]}, "architecture", "plain text"),
        ({"host": "ssh", "remote_host": "\udfff"}, "remote_host", "plain text"),
        ({"wish\ud800": "x"}, "wish", "There is no option 'wish?'."),
        ({"wish\ud800": {}}, "wish", "Send text, a number, or a list of those."),
        ({"host": "ssh"}, "remote_host", "the admin adds remote hosts"),
        ({"remote_host": "mine"}, "remote_host", "A remote host goes with host ssh alone."),
    ],
)
def test_wrong_members_are_named_and_start_nothing(headers, client, change, parameter, sentence):
    response = start(client, headers, {**WANTED, **change})
    assert response.status_code == 400
    assert sentence in problem(response)[parameter]
    assert BenchmarkJob.objects.count() == 0


EVERY_CNN = "Name at least one CNN, or leave architecture out for every known one."


@pytest.mark.parametrize("nothing", [[], [""], ["", " "]])
@pytest.mark.parametrize("name", JOB_OPTION_NAMES)
def test_an_empty_list_is_never_taken_for_everything(headers, client, name, nothing):
    response = start(client, headers, {**WANTED, name: nothing})
    sentence = {
        "architecture": EVERY_CNN,
        "machine": "Choose one machine, for example aws-g4dn.xlarge.",
    }.get(name, f"An empty list asks for nothing: leave {name} out for the usual.")
    assert (response.status_code, problem(response)) == (400, {name: sentence})
    assert BenchmarkJob.objects.count() == 0


@pytest.mark.parametrize("text", ["", " "])
def test_a_cnn_without_a_name_is_not_every_cnn(headers, client, text):
    assert problem(start(client, headers, {**WANTED, "architecture": text})) == {
        "architecture": EVERY_CNN
    }
    query = {"machine": "aws-g4dn.xlarge", "architecture": text, "batch_sizes": "1,2"}
    assert problem(client.get(f"{JOBS}quote/", query, headers=headers)) == {
        "architecture": EVERY_CNN
    }


def test_without_the_member_every_known_cnn_is_quoted(headers, client):
    query = {"machine": "aws-g4dn.xlarge", "batch_sizes": "2"}
    quote = client.get(f"{JOBS}quote/", query, headers=headers).json()
    # Three CNNs, an iteration each, and eight passes of the three layers that they share.
    assert quote["timings"] == 3 + 8


@pytest.mark.parametrize("body", ["[]", '"text"', "5", "{", "", "[" * 100_000, '{"a":' * 100_000])
def test_a_body_that_is_no_object_is_refused(headers, client, body):
    response = client.post(
        JOBS,
        body,
        content_type="application/json",
        headers={**headers, "Idempotency-Key": "1"},
    )
    assert response.status_code == 400
    assert problem(response)


def test_limits_and_work_under_way_are_conflicts(headers, client):
    dear = start(client, headers, {**WANTED, "max_usd": 20}, key="1")
    assert dear.status_code == 409
    assert problem(dear)[""].startswith("A job may cost at most 10.00 USD")
    start(client, headers)
    again = start(client, headers, key="another")
    assert (again.status_code, problem(again)) == (
        409,
        {"": "Nothing is missing: everything is measured or under way."},
    )


# Watch, cancel, retry -------------------------------------------------------------------------


def test_a_job_comes_with_its_cost_and_its_events_in_pages(headers, catalogue, client):
    job = cloud_job(catalogue["aws-g4dn.xlarge"])
    launch(job, minutes=30)
    for number in range(5):
        write_event(job, message=f"note {number}")
    answer = client.get(f"{JOBS}{job.pk}/", headers=headers).json()
    assert answer["cost_usd"] == pytest.approx(0.263, abs=0.001)
    assert (answer["maximum_usd"], len(answer["events"])) == (0.79, 5)
    events = client.get(f"{JOBS}{job.pk}/events/?limit=2&offset=2", headers=headers).json()
    assert events["count"] == 5
    assert [event["message"] for event in events["results"]] == ["note 2", "note 3"]
    assert (
        client.get(f"{JOBS}{'0' * 8}-0000-4000-8000-{'0' * 12}/events/", headers=headers).json()[
            "status"
        ]
        == 404
    )


def test_the_number_of_queries_does_not_grow_with_jobs_and_events(
    headers, catalogue, client, django_assert_max_num_queries
):
    for _ in range(20):
        launch(job := cloud_job(catalogue["aws-g4dn.xlarge"]), client_token=str(_))
        write_event(job, message="a note")
    with django_assert_max_num_queries(5):
        assert client.get(JOBS, headers=headers).json()["count"] == 20
    with django_assert_max_num_queries(5):
        client.get(f"{JOBS}{job.pk}/", headers=headers)


def test_r6_cancel_ends_a_job_and_again_changes_nothing(headers, catalogue, client):
    job = cloud_job(catalogue["aws-g4dn.xlarge"])
    for _ in range(2):
        answer = client.post(f"{JOBS}{job.pk}/cancel/", headers=headers)
        assert (answer.status_code, answer.json()["state"]) == (200, "cleaning")
    assert [event.message for event in job.events.all()] == [
        "Cancelled by operator through the API."
    ]


def test_r11_retry_goes_on_once(headers, client):
    start(client, headers)
    BenchmarkJob.objects.update(state="failed", reason="instance_lost")
    job = BenchmarkJob.objects.get()
    release_claims(job)
    first = client.post(f"{JOBS}{job.pk}/retry/", headers=headers)
    second = client.post(f"{JOBS}{job.pk}/retry/", headers=headers)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["retry_of"] == str(job.pk)
    assert first.json()["id"] == second.json()["id"]
    assert first.json()["maximum_usd"] == 0.75


def test_a_job_that_is_not_over_is_not_retried(headers, catalogue, client):
    job = cloud_job(catalogue["aws-g4dn.xlarge"])
    response = client.post(f"{JOBS}{job.pk}/retry/", headers=headers)
    assert response.status_code == 409
    assert problem(response)[""].startswith("The job is not over yet")


def test_cancel_and_retry_need_their_permissions(onlooker, catalogue, client):
    headers = token_of(onlooker)
    job = cloud_job(catalogue["aws-g4dn.xlarge"])
    for name in ("cancel", "retry"):
        assert client.post(f"{JOBS}{job.pk}/{name}/", headers=headers).status_code == 403
    job.refresh_from_db()
    assert job.state == "running"
