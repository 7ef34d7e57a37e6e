"""An operator on a site with a catalogue, where a month may cost 50 dollars."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from benchmarking.models import BenchmarkJob, CloudInstance, Machine
from benchmarking.tests.factories import create_job


@pytest.fixture(autouse=True)
def limits(settings: Any) -> None:
    """Room for a job; the shipped settings have none."""
    settings.BENCHMARK_USD_PER_MONTH = Decimal(50)
    settings.BENCHMARK_USD_PER_JOB = Decimal(10)
    settings.BENCHMARK_USD_PER_HOUR = Decimal(10)
    settings.BENCHMARK_INSTANCES = 2
    settings.EC2_REGIONS = []
    settings.BENCHMARKS_ENABLED = True


@pytest.fixture
def operator(catalogue: dict[str, Machine], client: Client) -> User:
    """Signed in, and allowed to start and cancel jobs."""
    user = User.objects.create_user("operator", is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(codename__in=["add_benchmarkjob", "change_benchmarkjob"])
    )
    client.force_login(user)
    return user


@pytest.fixture
def onlooker(catalogue: dict[str, Machine], client: Client) -> User:
    """Signed in and on the staff, and allowed nothing more."""
    user = User.objects.create_user("onlooker", is_staff=True)
    client.force_login(user)
    return user


def cloud_job(machine: Machine, **values: Any) -> BenchmarkJob:
    """A job on a rented machine, a quarter done."""
    defaults: dict[str, Any] = {
        "host_kind": "ec2",
        "state": "running",
        "planned_count": 40,
        "stored_count": 9,
        "failed_count": 1,
        "expected_seconds": 600.0,
        "maximum_usd": Decimal("0.79"),
        "current_work": "resnet50 x 8",
    }
    return create_job(machine=machine, **{**defaults, **values})


def launch(job: BenchmarkJob, *, minutes: int = 30, **values: Any) -> CloudInstance:
    """The instance of a job, launched some minutes ago at 0.526 dollars an hour."""
    now = timezone.now()
    defaults: dict[str, Any] = {
        "attempt": 1,
        "state": CloudInstance.State.RUNNING,
        "region": "us-east-1",
        "zone": "us-east-1b",
        "instance_type": "g4dn.xlarge",
        "client_token": f"token of {job.pk}",
        "request": {},
        "user_data_sha256": "0" * 64,
        "instance_id": "i-0123456789abcdef0",
        "usd_per_hour": Decimal("0.526"),
        "reserved_usd": Decimal("0.79"),
        "launched_at": now - timedelta(minutes=minutes),
        "expires_at": now + timedelta(hours=1),
    }
    return CloudInstance.objects.create(job=job, **{**defaults, **values})


def text_of(response: HttpResponse) -> str:
    """The words of a page, with single spaces between them."""
    words = re.sub(r"<[^>]+>", " ", response.content.decode())
    return re.sub(r"\s+", " ", html.unescape(words))
