"""Jobs are for staff, by token: each with its progress and its events."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import User
from rest_framework.authtoken.models import Token

from benchmarking.models import BenchmarkJob, JobEvent
from benchmarking.tests.factories import create_job


@pytest.fixture
def job(db):
    job = create_job(
        planned_count=10,
        stored_count=4,
        state=BenchmarkJob.State.RUNNING,
        current_work="resnet50 at batch size 8",
        host_state={"process": "secret of the host"},
    )
    for message in ("queued by the command line", "the probe runs"):
        JobEvent.objects.create(job=job, message=message, new_state="running")
    return job


def headers_of(*, staff: bool) -> dict[str, str]:
    user = User.objects.create_user("operator" if staff else "visitor", is_staff=staff)
    return {"Authorization": f"Token {Token.objects.create(user=user).key}"}


@pytest.fixture
def staff(job):
    return headers_of(staff=True)


def test_the_list_says_how_far_each_job_is(job, staff, client):
    create_job(machine=job.machine, state=BenchmarkJob.State.FAILED, reason="deadline")
    answer = client.get("/api/v1/jobs/?state=running", headers=staff).json()
    (found,) = answer["results"]
    assert found == {
        "id": str(job.pk),
        "machine": "local",
        "host_kind": "local",
        "remote_host": None,
        "price_kind": "on-demand",
        "engine": "torch",
        "state": "running",
        "reason": "",
        "explanation": "The machine measures. Each timing is stored as it is fetched.",
        "planned_count": 10,
        "stored_count": 4,
        "failed_count": 0,
        "expected_seconds": 0.0,
        "current_work": "resnet50 at batch size 8",
        "maximum_usd": None,
        "cost_usd": None,
        "retry_of": None,
        "attempt": 1,
        "deadline": found["deadline"],
        "created_at": found["created_at"],
        "started_at": None,
        "ended_at": None,
    }
    both = client.get("/api/v1/jobs/?state=running&state=failed", headers=staff).json()
    assert [one["state"] for one in both["results"]] == ["failed", "running"]


def test_one_job_comes_with_its_events(job, staff, client):
    response = client.get(f"/api/v1/jobs/{job.pk}/", headers=staff)
    assert [event["message"] for event in response.json()["events"]] == [
        "queued by the command line",
        "the probe runs",
    ]
    assert b"secret of the host" not in response.content
    assert response["Cache-Control"] == "private, no-cache"
    again = client.get(
        f"/api/v1/jobs/{job.pk}/", headers=staff | {"If-None-Match": response["ETag"]}
    )
    assert again.status_code == 304


@pytest.mark.parametrize("path", ["", "00000000-0000-4000-8000-000000000000/"])
@pytest.mark.parametrize(
    ("who", "status", "sentence"),
    [
        ("nobody", 401, "Authentication credentials were not provided."),
        ("mistyped", 401, "Invalid token."),
        ("visitor", 403, "You do not have permission to perform this action."),
    ],
)
def test_only_staff_may_look(job, client, path, who, status, sentence):
    headers = {
        "nobody": {},
        "mistyped": {"Authorization": "Token 0123456789"},
        "visitor": headers_of(staff=False),
    }[who]
    response = client.get(f"/api/v1/jobs/{path}", headers=headers)
    assert (response.status_code, response["Content-Type"]) == (status, "application/problem+json")
    assert json.loads(response.content)["detail"] == sentence


def test_an_unknown_job_is_not_found(staff, client):
    response = client.get("/api/v1/jobs/00000000-0000-4000-8000-000000000000/", headers=staff)
    assert response.status_code == 404
    assert json.loads(response.content)["title"] == "Not Found"


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_a_job_is_started_and_ended_and_never_edited(job, staff, client, method):
    for path in ("", f"{job.pk}/"):
        assert getattr(client, method)(f"/api/v1/jobs/{path}", headers=staff).status_code == 405
    assert BenchmarkJob.objects.get().state == "running"
