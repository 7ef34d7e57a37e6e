"""Who may read /metrics."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from predictor_site.metrics_token import TOKEN_FILE, metrics_token

pytestmark = pytest.mark.django_db

ELSEWHERE = {"REMOTE_ADDR": "203.0.113.7"}


@pytest.fixture(autouse=True)
def folder(settings: Settings, tmp_path: Path) -> Path:
    """The folder of an installation that nobody has given a token."""
    settings.METRICS_TOKEN = None
    settings.VAR_DIR = tmp_path
    return tmp_path


def status_of(client: Client, **request: Any) -> int:
    return client.get("/metrics", **request).status_code


def test_r25_whoever_reads_the_installations_token_may_read(client: Client, folder: Path) -> None:
    # The first request with any token makes it.
    assert status_of(client, HTTP_AUTHORIZATION="Bearer guessed") == 403
    file = folder / TOKEN_FILE
    token = file.read_text(encoding="utf-8")
    assert len(token) == 43
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    response = client.get("/metrics", headers={"authorization": f"Bearer {token}"})

    assert response.status_code == 200
    assert response["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "no-store" in response["Cache-Control"]
    assert b"\nepochcast_live_instances 0.0\n" in response.content
    assert metrics_token() == token


@pytest.mark.parametrize(
    "request_values",
    [
        # What a proxy on this computer sends: with headers of its own, or none at all.
        {},
        {"HTTP_HOST": "localhost"},
        {"HTTP_HOST": "127.0.0.1:8000", "SERVER_PROTOCOL": "HTTP/1.0"},
        {"HTTP_HOST": "[::1]", "REMOTE_ADDR": "::1"},
        {"HTTP_X_FORWARDED_FOR": "127.0.0.1"},
        {"HTTP_X_REAL_IP": "127.0.0.1"},
        {"HTTP_FORWARDED": "for=127.0.0.1"},
        ELSEWHERE,
        {**ELSEWHERE, "HTTP_X_FORWARDED_FOR": "127.0.0.1"},
    ],
)
@pytest.mark.parametrize("token", ["secret", None])
def test_r25_no_address_and_no_header_of_a_proxy_opens_it(
    client: Client, settings: Settings, token: str | None, request_values: dict[str, str]
) -> None:
    settings.METRICS_TOKEN = token

    response = client.get("/metrics", **request_values)

    assert response.status_code == 403
    assert response.content.startswith(b"Metrics are for staff")
    assert b"METRICS_TOKEN" in response.content and b"EPOCHCAST_VAR_DIR" in response.content
    assert str(settings.VAR_DIR).encode() not in response.content


@pytest.mark.parametrize("token", ["secret", None])
@pytest.mark.parametrize(
    "header", ["Bearer wrong", "Bearer ", "Bearer", "Bearer None", "Basic secret", "secret", "ä"]
)
def test_r25_another_token_does_not_open_it(
    client: Client, settings: Settings, token: str | None, header: str
) -> None:
    settings.METRICS_TOKEN = token

    assert status_of(client, HTTP_AUTHORIZATION=header) == 403


def test_r25_the_setting_takes_the_place_of_the_installations_token(
    client: Client, settings: Settings, folder: Path
) -> None:
    own = metrics_token()
    settings.METRICS_TOKEN = "secret"

    assert status_of(client, **ELSEWHERE, HTTP_AUTHORIZATION="Bearer secret") == 200
    assert status_of(client, **ELSEWHERE, HTTP_AUTHORIZATION=f"Bearer {own}") == 403


@pytest.mark.parametrize(("is_staff", "status"), [(True, 200), (False, 403)])
def test_r25_staff_may_and_users_may_not(client: Client, is_staff: bool, status: int) -> None:
    client.force_login(User.objects.create_user("ann", is_staff=is_staff))

    assert status_of(client, **ELSEWHERE) == status
