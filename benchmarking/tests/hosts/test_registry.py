"""Which host a job gets, and that nobody pays for the libraries of another one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarking.hosts.ec2.host import Ec2Host
from benchmarking.hosts.registry import host_of
from benchmarking.models import BenchmarkJob
from benchmarking.tests import factories

# What a web process does: load everything that serves pages, and serve some.
_SERVING = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "predictor_site.settings"
import predictor_site.wsgi
import predictor_site.celery
from django.test import Client
from django.urls import get_resolver
get_resolver().url_patterns
assert Client(headers={"host": "localhost"}).get("/livez").status_code == 200
import benchmarking.tasks, benchmarking.hosts.registry, benchmarking.admin
print(sorted({"boto3", "botocore", "paramiko"} & set(sys.modules)))
"""


@pytest.mark.django_db
def test_job_on_ec2_gets_a_machine_of_ec2() -> None:
    job = factories.create_job(host_kind=BenchmarkJob.HostKind.EC2)
    assert isinstance(host_of(job), Ec2Host)


def test_process_that_serves_pages_loads_no_cloud_libraries(tmp_path) -> None:
    environment = {
        **os.environ,
        "EPOCHCAST_VAR_DIR": str(tmp_path),
        "SECRET_KEY": "x" * 50,
        # The settings check regions against boto3's catalogue.
        "EC2_REGIONS": "us-east-1",
    }
    environment.pop("DATABASE_URL", None)
    result = subprocess.run(
        [sys.executable, "-c", _SERVING],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.stdout.splitlines()[-1:] == ["[]"], result.stderr
