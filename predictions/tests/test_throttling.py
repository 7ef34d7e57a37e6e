"""Counts of requests hold over processes, and what cannot be counted is answered."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core.cache import caches
from django.core.cache.backends.filebased import FileBasedCache
from django.test import RequestFactory, override_settings
from redis.exceptions import ConnectionError as RedisConnectionError
from rest_framework.throttling import SimpleRateThrottle

from predictions.throttling import COUNTS, SharedAnonThrottle, SharedThrottle
from predictions.uploads.throttling import UploadThrottle

ASK_OFTEN = """
import sys, time
import django
django.setup()
from predictions.uploads.throttling import UploadThrottle
from django.test import RequestFactory
UploadThrottle.rate = "50/hour"
print("ready", flush=True)
sys.stdin.readline()
request = RequestFactory().post("/")
print(sum(UploadThrottle().allow_request(request, None) for _ in range(60)))
"""


def test_two_processes_count_together(tmp_path: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "EPOCHCAST_VAR_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "predictor_site.settings",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ASK_OFTEN],
            cwd=settings.BASE_DIR,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    answered = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(answered) == 50


def test_the_counts_of_an_installation_lie_in_its_folder() -> None:
    script = (
        "import django; django.setup();"
        "from django.core.cache import caches;"
        "cache = caches['throttles'];"
        "print(type(cache).__name__, getattr(cache, '_dir', cache._servers if hasattr(cache,"
        " '_servers') else ''))"
    )
    for broker, shown in (
        ("filesystem://", "FileBasedCache {folder}/throttles"),
        ("redis://127.0.0.1:1/0", "RedisCache ['redis://127.0.0.1:1/0']"),
    ):
        folder = settings.VAR_DIR
        printed = subprocess.run(
            [sys.executable, "-c", script],
            cwd=settings.BASE_DIR,
            env={
                "PATH": os.environ["PATH"],
                "EPOCHCAST_VAR_DIR": str(folder),
                "CELERY_BROKER_URL": broker,
                "DJANGO_SETTINGS_MODULE": "predictor_site.settings",
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        assert printed == shown.format(folder=folder)


def test_every_throttle_of_the_site_counts_there() -> None:
    assert settings.REST_FRAMEWORK["DEFAULT_THROTTLE_CLASSES"] == [
        f"{SharedAnonThrottle.__module__}.{SharedAnonThrottle.__name__}"
    ]
    assert issubclass(UploadThrottle, SharedThrottle)
    assert isinstance(caches[COUNTS], FileBasedCache)


@pytest.mark.parametrize("error", [OSError(28, "No space left"), RedisConnectionError("refused")])
def test_what_cannot_be_counted_is_answered(db, client, monkeypatch, caplog, error) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(FileBasedCache, "get", fail)
    with caplog.at_level(logging.WARNING, logger="predictions.throttling"):
        response = client.get("/api/v1/devices/")
    assert (response.status_code, response.json()["count"]) == (200, 0)
    (message,) = [r.getMessage() for r in caplog.records if r.name == "predictions.throttling"]
    assert message == f"requests are not counted: {error}"


@pytest.mark.redis
def test_redis_counts_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SimpleRateThrottle.THROTTLE_RATES, "anon", "3/minute")
    places = {
        "default": settings.CACHES["default"],
        COUNTS: {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": settings.CELERY_BROKER_URL,
            "KEY_PREFIX": f"test-{uuid.uuid4()}",
            "TIMEOUT": 60,
        },
    }
    with override_settings(CACHES=places):
        request = RequestFactory().get("/")
        request.user = AnonymousUser()
        answers = [SharedAnonThrottle().allow_request(request, None) for _ in range(4)]
    assert answers == [True, True, True, False]
