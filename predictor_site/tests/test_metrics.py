"""Who may read /metrics."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

pytestmark = pytest.mark.django_db

ELSEWHERE = {"REMOTE_ADDR": "203.0.113.7"}


def status_of(client: Client, **request: Any) -> int:
    return client.get("/metrics", **request).status_code


def test_r25_this_computer_may_read(client: Client) -> None:
    response = client.get("/metrics")

    assert response.status_code == 200
    assert response["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "no-store" in response["Cache-Control"]
    assert b"\nepochcast_live_instances 0.0\n" in response.content


@pytest.mark.parametrize(
    "request_values",
    [
        ELSEWHERE,
        {"HTTP_X_FORWARDED_FOR": "203.0.113.7"},
        {"HTTP_FORWARDED": "for=203.0.113.7"},
        {**ELSEWHERE, "HTTP_X_FORWARDED_FOR": "127.0.0.1"},
        {**ELSEWHERE, "HTTP_AUTHORIZATION": "Bearer wrong"},
        {**ELSEWHERE, "HTTP_AUTHORIZATION": "Bearer "},
        {**ELSEWHERE, "HTTP_AUTHORIZATION": "Basic secret"},
    ],
)
def test_r25_strangers_may_not(
    client: Client, settings: Settings, request_values: dict[str, str]
) -> None:
    settings.METRICS_TOKEN = "secret"

    response = client.get("/metrics", **request_values)

    assert response.status_code == 403
    assert response.content.startswith(b"Metrics are for staff")


def test_r25_behind_a_proxy_nobody_is_this_computer(client: Client, settings: Settings) -> None:
    settings.HTTPS = True

    assert status_of(client) == 403


def test_r25_without_a_token_no_token_opens(client: Client, settings: Settings) -> None:
    settings.METRICS_TOKEN = None

    assert status_of(client, **ELSEWHERE, HTTP_AUTHORIZATION="Bearer None") == 403
    assert status_of(client, **ELSEWHERE, HTTP_AUTHORIZATION="Bearer ") == 403


def test_r25_whoever_shows_the_token_may(client: Client, settings: Settings) -> None:
    settings.METRICS_TOKEN = "secret"

    assert status_of(client, **ELSEWHERE, HTTP_AUTHORIZATION="Bearer secret") == 200


@pytest.mark.parametrize(("is_staff", "status"), [(True, 200), (False, 403)])
def test_r25_staff_may_and_users_may_not(client: Client, is_staff: bool, status: int) -> None:
    client.force_login(User.objects.create_user("ann", is_staff=is_staff))

    assert status_of(client, **ELSEWHERE) == status
