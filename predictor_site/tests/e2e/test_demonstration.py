"""From a plan to a refreshed forecast: what ``script/demo-benchmark`` does, and what it leaves.

On PostgreSQL and Redis where the environment names them, else on SQLite and the filesystem.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection, connections
from pytest_django import DjangoDbBlocker

from benchmarking.models import (
    BenchmarkJob,
    CloudInstance,
    IterationTiming,
    JobEvent,
    JobSecret,
    LayerTiming,
)
from benchmarking.tests.databases import other_database
from predictions.models import ForecastCurve
from regression.models import TrainedModel

pytestmark = [pytest.mark.e2e, pytest.mark.sshd, pytest.mark.torch]

LONGEST_SECONDS = 90
"""The aim, on a computer that does nothing else meanwhile."""
GIVEN_UP_SECONDS = 600
USD_PER_HOUR = Decimal("0.17")


@pytest.fixture
def database_url(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """An empty database of the kind that the tests run on."""
    values = settings.DATABASES["default"]
    if not values["ENGINE"].endswith("postgresql"):
        yield f"sqlite:///{tmp_path / 'demonstration.sqlite3'}"
        return
    name = f"epochcast_e2e_{uuid.uuid4().hex[:12]}"
    with django_db_blocker.unblock():
        connection.close()
        with other_database(os.environ["DATABASE_URL"]), connection.cursor() as cursor:
            cursor.execute(f'CREATE DATABASE "{name}"')
        yield re.sub(r"/[^/]*$", f"/{name}", os.environ["DATABASE_URL"])
        with other_database(os.environ["DATABASE_URL"]), connection.cursor() as cursor:
            cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def demonstration(database_url: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """The demonstration, over; everything that it wrote lies in ``tmp_path``."""
    options = ["--database-url", database_url, "--folder", str(tmp_path / "demonstration")]
    if settings.CELERY_BROKER_URL.startswith("redis"):
        options += ["--broker-url", settings.CELERY_BROKER_URL]
    return subprocess.run(
        [sys.executable, "-m", "predictor_site.tests.demo", *options],
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        timeout=GIVEN_UP_SECONDS,
        check=False,
    )


@pytest.fixture
def was_quiet() -> bool:
    """Whether nothing else kept this computer busy before."""
    return os.getloadavg()[0] < 1.0


def test_job_from_plan_to_forecast(
    was_quiet: bool,
    demonstration: subprocess.CompletedProcess[str],
    database_url: str,
    tmp_path: Path,
    django_db_blocker: DjangoDbBlocker,
) -> None:
    output = demonstration.stdout
    assert demonstration.returncode == 0, output + demonstration.stderr
    last_line = output.splitlines()[-1]
    match = re.fullmatch(r"(\d+) new timings stored, 0 live instances, (\d+) s", last_line)
    assert match, last_line
    before, after = output.split("== The forecast before")[1].split("== The forecast after")
    assert "Not covered: 18 of 18 convolution layers have no timings" in before
    assert re.search(r"^ +1 .* measured$", after, re.MULTILINE)

    with django_db_blocker.unblock(), other_database(database_url):
        job = BenchmarkJob.objects.get()
        assert (job.state, job.reason, job.host_kind) == ("succeeded", "completed", "ec2")
        assert (job.stored_count, job.failed_count) == (job.planned_count, 0)
        layers = LayerTiming.objects.filter(run__job=job)
        iterations = IterationTiming.objects.filter(run__job=job)
        assert layers.count() + iterations.count() == int(match.group(1))
        assert layers.values("layer").distinct().count() == 18
        assert [timing.batch_size for timing in iterations] == [1]
        for timings in (layers, iterations):
            assert all(timing.milliseconds > 0 for timing in timings)
        assert [
            event.new_state for event in JobEvent.objects.order_by("pk") if event.new_state
        ] == [*("queued", "launching", "booting", "running", "collecting", "cleaning", "succeeded")]

        instance = CloudInstance.objects.get()
        assert instance.state == "terminated"
        seconds = (instance.terminated_at - instance.launched_at).total_seconds()
        # EC2 bills a minute at least.
        expected = USD_PER_HOUR * Decimal(max(seconds, 60.0)) / 3600
        assert 0 < instance.cost_usd <= instance.reserved_usd
        assert instance.cost_usd == pytest.approx(expected, rel=Decimal("0.02"))

        secret = JobSecret.objects.get()
        assert (bytes(secret.login_key), bytes(secret.host_key)) == (b"", b"")
        assert secret.erased_at is not None

        model = TrainedModel.objects.get(machine=job.machine, is_active=True)
        assert model.iteration_timing_count == 1
        assert model.layer_timing_count == layers.count()
        curve = ForecastCurve.objects.get(place=job.machine.slug)
        assert curve.computed_at > curve.stale_since > job.started_at
        assert b"PRIVATE KEY" not in _everything_stored()
    assert "PRIVATE KEY" not in output + demonstration.stderr
    for path in (tmp_path / "demonstration").rglob("*"):
        if path.is_file():
            assert b"PRIVATE KEY" not in path.read_bytes(), path
    if was_quiet:
        assert int(match.group(2)) <= LONGEST_SECONDS


def _everything_stored() -> bytes:
    """Every row of every table, as text."""
    with connections["default"].cursor() as cursor:
        pieces = []
        for table in connections["default"].introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            pieces += [repr(row) for row in cursor]
    return "\n".join(pieces).encode()
