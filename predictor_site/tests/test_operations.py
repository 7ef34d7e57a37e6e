"""docs/operations.md says what the program does: its calls, limits and settings."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from fnmatch import fnmatch
from pathlib import Path

import pytest
from django.conf import settings
from prometheus_client.parser import text_string_to_metric_families

from benchmarking.hosts.ec2.request import DEPLOYMENT_TAG
from benchmarking.jobs import deadlines
from benchmarking.jobs.metrics import metrics_text
from benchmarking.models import BenchmarkJob

ROOT = Path(settings.BASE_DIR)
TEXT = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
POLICY = json.loads(re.search(r"```json\n(.*?)```", TEXT, re.DOTALL)[1])
TAGGED = {f"aws:RequestTag/{DEPLOYMENT_TAG}", f"aws:ResourceTag/{DEPLOYMENT_TAG}"}
SERVICES = {"GetParameter": "ssm", "GetProducts": "pricing"}


def _as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _statements_of(action: str) -> list[dict]:
    return [one for one in POLICY["Statement"] if action in _as_list(one["Action"])]


def test_r3_the_policy_allows_what_is_called_and_nothing_else() -> None:
    ec2 = (ROOT / "benchmarking" / "hosts" / "ec2" / "api.py").read_text(encoding="utf-8")
    prices = (ROOT / "benchmarking" / "prices" / "aws.py").read_text(encoding="utf-8")
    called = set(re.findall(r'_errors\("([A-Z]\w+)"\)', ec2))
    called |= {
        "".join(word.title() for word in name.split("_"))
        for name in re.findall(r'get_paginator\("(\w+)"\)', prices)
    }
    # Tags in a launch are allowed or refused under this name.
    called.add("CreateTags")
    assert "RunInstances" in called
    allowed = {action for one in POLICY["Statement"] for action in _as_list(one["Action"])}
    assert allowed == {f"{SERVICES.get(name, 'ec2')}:{name}" for name in called}


def test_r3_the_policy_launches_and_ends_only_what_bears_our_tag() -> None:
    for action, resource in (
        ("ec2:RunInstances", "arn:aws:ec2:us-east-1:123456789012:instance/i-1"),
        ("ec2:RunInstances", "arn:aws:ec2:us-east-1:123456789012:volume/v-1"),
        ("ec2:TerminateInstances", "arn:aws:ec2:us-east-1:123456789012:instance/i-1"),
        ("ec2:AuthorizeSecurityGroupIngress", "arn:aws:ec2:us-east-1:1:security-group/sg-1"),
    ):
        allowing = [
            one
            for one in _statements_of(action)
            if any(fnmatch(resource, pattern) for pattern in _as_list(one["Resource"]))
        ]
        assert allowing, action
        for statement in allowing:
            assert TAGGED & statement["Condition"]["StringEquals"].keys(), action


def test_r9_the_policy_passes_no_role_to_an_instance() -> None:
    assert "iam:" not in json.dumps(POLICY)


def test_every_setting_that_is_named_exists() -> None:
    listed = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    pattern = r"`((?:BENCHMARK|EC2|AUTOMATIC|DEPLOYMENT|METRICS|JOB_SECRET)[A-Z_0-9]*)"
    named = set(re.findall(pattern, TEXT))
    assert len(named) > 10
    for name in named:
        assert hasattr(settings, name), name
        assert f"`{name}`" in listed, name


@pytest.mark.django_db
def test_r25_every_metric_that_is_named_exists() -> None:
    named = set(re.findall(r"`(epochcast_\w+)`", TEXT))
    assert len(named) > 3
    served = {family.name for family in text_string_to_metric_families(metrics_text().decode())}
    assert named - served == set()


def test_r10_the_table_of_states_gives_the_limits_of_the_program() -> None:
    table = TEXT.split("## What a job's state means")[1].split("\n\n")[1]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    named = {name for row in rows for name in row[0].split(", ")}
    assert named == {label for _, label in BenchmarkJob.State.choices}
    limits = {row[0]: row[3] for row in rows}
    minutes = timedelta(minutes=1)
    assert limits["Queued"] == f"{deadlines.LONGEST_QUEUE_TIME.days} days"
    assert limits["Launching"] == f"{deadlines.LAUNCH_LIMIT // minutes} minutes"
    boot = deadlines.BOOT_LIMITS[BenchmarkJob.HostKind.EC2]
    assert limits["Booting"] == f"{boot // minutes} minutes"
    assert limits["Running"] == (
        f"{deadlines.SETUP_LIMIT // minutes} minutes without a first line, "
        f"{deadlines.PROGRESS_LIMIT // minutes} without a further one"
    )
    assert limits["Collecting"] == f"{deadlines.COLLECTING_LIMIT // minutes} minutes"
