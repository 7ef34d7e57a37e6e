"""list_instances and terminate_instances: what an operator sees, without any worker."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import Settings

from benchmarking.hosts.base import HostJob
from benchmarking.hosts.ec2.host import Ec2Host
from benchmarking.management.commands import terminate_instances
from benchmarking.models import BenchmarkJob, CloudInstance
from benchmarking.tests.cloud.front import CloudFront

pytestmark = pytest.mark.django_db


def run(*arguments: str, **options: Any) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out, stderr=out, **options)
    return out.getvalue()


def refusal(*arguments: str) -> tuple[str, int]:
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    return str(caught.value), caught.value.returncode


@pytest.fixture
def launched(front: CloudFront, job: BenchmarkJob) -> CloudInstance:
    """A job's instance, an hour old by the books."""
    assert Ec2Host(job).acquire(HostJob(job.pk))
    row = CloudInstance.objects.get()
    CloudInstance.objects.update(launched_at=timezone.now() - timedelta(hours=1))
    return row


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answers to questions, taken in turn."""
    answers: list[str] = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: answers.pop(0))
    return answers


def test_r21_table_names_each_instance_with_its_cost(
    front: CloudFront, launched: CloudInstance
) -> None:
    stranger = front.launch_by_hand(tags={"epochcast:deployment": "test"})
    front.launch_by_hand(tags={"epochcast:deployment": "other"})

    lines = run("list_instances").splitlines()
    assert lines[0].split() == "region instance type state age job USD so far".split()
    first, second = (line.split() for line in lines[1:])
    assert first[:4] == ["us-east-1", launched.instance_id, "g4dn.xlarge", "running"]
    assert (first[-2], first[-1]) == (str(launched.job_id), "0.50")
    assert second[:4] == ["us-east-1", stranger.instance_id, "g4dn.xlarge", "running"]
    assert second[-2:] == ["-", "?"]
    assert len({len(line) for line in lines}) == 1


def test_r21_json_has_the_same_with_numbers(front: CloudFront, launched: CloudInstance) -> None:
    (row,) = json.loads(run("list_instances", "--format", "json"))["instances"]
    assert row.pop("launched_at").startswith("20")
    assert 0 <= row.pop("age_seconds") < 120
    assert row.pop("usd_so_far") == pytest.approx(0.5, abs=0.01)
    assert row == {
        "region": "us-east-1",
        "zone": "us-east-1a",
        "instance_id": launched.instance_id,
        "instance_type": "g4dn.xlarge",
        "state": "running",
        "job": str(launched.job_id),
        "usd_per_hour": 0.5,
    }


def test_launch_without_an_answer_is_listed(front: CloudFront, launched: CloudInstance) -> None:
    front.forget(launched.instance_id)
    line = run("list_instances").splitlines()[1]
    assert "pending (not seen)" in line


def test_nothing_lives(front: CloudFront, job: BenchmarkJob) -> None:
    assert run("list_instances") == "No instance of this installation lives in us-east-1.\n"
    assert json.loads(run("list_instances", "--format", "json")) == {"instances": []}
    assert run("terminate_instances", "--all") == "Nothing lives in us-east-1.\n"


def test_all_regions_of_the_account_are_looked_at(front: CloudFront) -> None:
    stranger = front.launch_by_hand(region="sa-east-1", tags={"epochcast:deployment": "test"})
    assert stranger.instance_id not in run("list_instances", "--region", "us-east-1")
    assert stranger.instance_id in run("list_instances", "--all-regions")


@pytest.mark.parametrize(
    "arguments",
    [
        ("list_instances",),
        ("list_instances", "--all-regions"),
        ("terminate_instances", "--all", "--yes"),
    ],
)
def test_no_credentials_is_one_line(
    front: CloudFront,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
) -> None:
    settings.EC2_REGIONS = ["us-east-1", "eu-west-1"]
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))

    message, returncode = refusal(*arguments)
    assert returncode == 2
    assert "no AWS credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in message
    assert "\n" not in message


def test_region_that_cannot_be_seen_is_told_and_the_others_shown(
    front: CloudFront, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.EC2_REGIONS = ["us-east-1", "eu-west-1"]
    front.launch_by_hand(tags={"epochcast:deployment": "test"})
    front.plan_error(
        "UnauthorizedOperation", "You may not.", action="DescribeInstances", region="eu-west-1"
    )
    out = StringIO()
    with pytest.raises(CommandError, match="1 of 2 regions") as caught:
        call_command("list_instances", stdout=out, stderr=out)
    assert caught.value.returncode == 1
    assert "g4dn.xlarge" in out.getvalue()
    assert "UnauthorizedOperation (DescribeInstances in eu-west-1): You may not." in out.getvalue()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("list_instances", "--region", "us-east-9"), "'us-east-9' is no AWS region"),
        (("terminate_instances",), "say which: either ids"),
        (("terminate_instances", "i-1", "--all"), "say which: either ids"),
        (("terminate_instances", "i-1"), "'i-1' is no live instance of this installation; there"),
    ],
)
def test_wrong_arguments_get_one_line(
    front: CloudFront, job: BenchmarkJob, arguments: tuple[str, ...], sentence: str
) -> None:
    message, returncode = refusal(*arguments)
    assert returncode == 2
    assert sentence in message


def test_r21_ends_what_it_is_told_to_cancels_the_job_and_waits_for_the_end(
    front: CloudFront,
    launched: CloudInstance,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.BENCHMARKS_ENABLED = False
    monkeypatch.setattr(terminate_instances, "POLL_SECONDS", 0.0)
    front.launches[launched.instance_id].shutdown_calls = 2
    other = front.launch_by_hand(tags={"epochcast:deployment": "test"})

    assert run("terminate_instances", launched.instance_id, "--yes") == (
        f"{launched.instance_id} has ended.\n"
    )
    assert front.live() == [other]
    launched.refresh_from_db()
    assert launched.state == "terminated"
    job = BenchmarkJob.objects.get()
    assert (job.state, job.reason) == ("cleaning", "cancelled")
    # Asked again while AWS had not confirmed it.
    assert len(front.calls_of("TerminateInstances")) == 3


def test_r21_all_ends_strangers_and_answerless_launches_too(
    front: CloudFront, launched: CloudInstance, settings: Settings
) -> None:
    settings.EC2_REGIONS = ["us-east-1", "eu-west-1"]
    front.launch_by_hand(region="eu-west-1", tags={"epochcast:deployment": "test"})
    other = front.launch_by_hand(tags={"epochcast:deployment": "other"})

    assert run("terminate_instances", "--all", "--yes").count("has ended.") == 2
    assert front.live() == [other]


def test_asks_before_and_takes_no_for_an_answer(
    front: CloudFront, launched: CloudInstance, at_terminal: list[str]
) -> None:
    at_terminal += ["", "y"]
    said = run("terminate_instances", "--all")
    assert said.endswith("Nothing was ended.\n")
    assert f"{launched.instance_id}  g4dn.xlarge in us-east-1a, running, for " in said
    assert len(front.live()) == 1

    assert run("terminate_instances", "--all").endswith("has ended.\n")
    assert front.live() == []


def test_where_nobody_can_be_asked_yes_is_needed(
    front: CloudFront, launched: CloudInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    assert refusal("terminate_instances", "--all") == (
        "--yes ends them where nobody can be asked",
        2,
    )
    assert len(front.live()) == 1


def test_end_that_is_not_confirmed_is_told(
    front: CloudFront, launched: CloudInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminate_instances, "LONGEST_WAIT_SECONDS", -1.0)
    front.launches[launched.instance_id].shutdown_calls = 5
    message, returncode = refusal("terminate_instances", "--all", "--yes")
    assert returncode == 1
    assert message.startswith(f"not confirmed as ended: {launched.instance_id}; the reaper goes on")


def test_refused_end_is_told(
    front: CloudFront, launched: CloudInstance, capsys: pytest.CaptureFixture[str]
) -> None:
    front.plan_error("UnauthorizedOperation", "You may not.", action="TerminateInstances")
    out = StringIO()
    with pytest.raises(CommandError, match="not confirmed as ended"):
        call_command("terminate_instances", "--all", "--yes", stdout=out, stderr=out)
    assert "UnauthorizedOperation (TerminateInstances in us-east-1): You may not." in out.getvalue()
