"""Machines of the settings that the catalogue does not have: said wherever somebody looks."""

from __future__ import annotations

import logging
from io import StringIO

import pytest
from django.core.checks import Error, Warning
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection
from pytest_django import DjangoAssertNumQueries, Settings

from benchmarking.checks import check_automatic_machines
from benchmarking.jobs.automatic import launch_automatic_job
from benchmarking.jobs.automatic_machines import wrong_machines
from benchmarking.jobs.metrics import job_health
from benchmarking.models import Machine
from benchmarking.tests import factories

pytestmark = pytest.mark.django_db

UNKNOWN = (
    "AUTOMATIC_BENCHMARK_MACHINES must be machines of the catalogue such as aws-g4dn.xlarge; "
    "'aws-p4d.24xlage' is none (did you mean aws-p4d.24xlarge?)"
)
RETIRED = (
    "AUTOMATIC_BENCHMARK_MACHINES must be machines that can still be rented; "
    "'aws-p2.xlarge' is retired"
)


@pytest.fixture
def mistyped(settings: Settings) -> Settings:
    factories.create_machine(slug="aws-p4d.24xlarge")
    factories.create_machine(slug="aws-p2.xlarge", availability=Machine.Availability.RETIRED)
    settings.AUTOMATIC_BENCHMARK_MACHINES = [
        "aws-p4d.24xlage",
        "aws-p2.xlarge",
        "aws-p4d.24xlarge",
    ]
    return settings


def test_the_check_of_the_database_names_them(mistyped: Settings) -> None:
    assert check_automatic_machines(databases=["default"]) == [
        Error(UNKNOWN, id="benchmarking.E001"),
        Warning(RETIRED, id="benchmarking.W001"),
    ]
    assert check_automatic_machines(databases=None) == []
    with pytest.raises(SystemCheckError) as refused:
        call_command("check", databases=["default"], stderr=StringIO())
    assert UNKNOWN in str(refused.value)


def test_each_automatic_launch_logs_a_line_for_each(
    mistyped: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    mistyped.AUTOMATIC_BENCHMARKS = True
    for _ in range(2):
        caplog.clear()
        assert launch_automatic_job() is None
        assert [(record.levelno, record.message) for record in caplog.records] == [
            (logging.ERROR, UNKNOWN),
            (logging.ERROR, RETIRED),
        ]


def test_metrics_count_them(mistyped: Settings) -> None:
    assert job_health().wrong_automatic_machines == 2
    mistyped.AUTOMATIC_BENCHMARK_MACHINES = ["aws-p4d.24xlarge"]
    assert job_health().wrong_automatic_machines == 0


def test_nothing_is_wrong_before_the_catalogue_is_loaded_or_where_nothing_is_set(
    settings: Settings, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    settings.AUTOMATIC_BENCHMARK_MACHINES = ["aws-p4d.24xlage"]
    assert wrong_machines().sentences == ()

    settings.AUTOMATIC_BENCHMARK_MACHINES = []
    with django_assert_num_queries(0):
        assert wrong_machines().sentences == ()


def test_the_check_lets_migrate_make_the_tables(settings: Settings) -> None:
    settings.AUTOMATIC_BENCHMARK_MACHINES = ["aws-p4d.24xlage"]
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE benchmarking_machine RENAME TO benchmarking_machine_away")

    assert check_automatic_machines(databases=["default"]) == []
