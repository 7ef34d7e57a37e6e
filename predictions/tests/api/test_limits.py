"""Too many requests, and addresses that are none: refused in words, as problem documents."""

from __future__ import annotations

import json

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from rest_framework.throttling import SimpleRateThrottle


@pytest.fixture
def two_a_minute(monkeypatch):
    monkeypatch.setitem(SimpleRateThrottle.THROTTLE_RATES, "anon", "2/minute")


def test_a_third_request_is_told_when_to_come_again(catalogue, two_a_minute, client):
    assert [client.get("/api/v1/devices/").status_code for _ in range(3)] == [200, 200, 429]
    response = client.get("/api/v1/predictions/?architecture=resnet50&machine=reference-cpu")
    wait = int(response["Retry-After"])
    assert (response.status_code, response["Content-Type"]) == (429, "application/problem+json")
    assert 0 < wait <= 60
    assert json.loads(response.content) == {
        "type": "about:blank",
        "title": "Too Many Requests",
        "status": 429,
        "detail": "This address has sent too many requests: 2/minute at most."
        f" Expected available in {wait} seconds.",
        "errors": [],
    }


def test_another_address_and_whoever_signed_in_are_answered(catalogue, two_a_minute, client):
    statuses = [client.get("/api/v1/devices/").status_code for _ in range(3)]
    assert statuses[-1] == 429
    assert client.get("/api/v1/devices/", REMOTE_ADDR="127.0.0.2").status_code == 200
    client.force_login(User.objects.create_user("reader"))
    assert client.get("/api/v1/devices/").status_code == 200


def test_a_made_up_forwarding_header_counts_for_nothing(catalogue, two_a_minute, client):
    statuses = [
        client.get("/api/v1/devices/", headers={"X-Forwarded-For": f"10.0.0.{n}"}).status_code
        for n in range(3)
    ]
    assert statuses == [200, 200, 429]


def test_the_limit_is_generous():
    assert settings.REST_FRAMEWORK["DEFAULT_THROTTLE_RATES"] == {"anon": "1200/minute"}


@pytest.mark.parametrize("method", ["get", "post"])
def test_an_unknown_endpoint_is_a_problem_document(db, client, method):
    response = getattr(client, method)("/api/v1/machine/t4/")
    assert (response.status_code, response["Content-Type"]) == (404, "application/problem+json")
    assert json.loads(response.content)["detail"] == (
        "There is no such endpoint; /api/docs/ lists them all."
    )


def test_a_missing_slash_is_added(db, client):
    response = client.get("/api/v1/machines")
    assert (response.status_code, response["Location"]) == (301, "/api/v1/machines/")
