"""The examples of docs/api.md, run as they stand against a server of the test's own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from decimal import Decimal
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from rest_framework.authtoken.models import Token

from benchmarking.models import Architecture, BenchmarkJob
from benchmarking.tests.factories import create_iteration_timing, create_job, create_run

SITE = "http://localhost:8000"
TEXT = (settings.BASE_DIR / "docs" / "api.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)


PYTHON_OUTPUTS = {
    "predictions": (
        "resnet50 16 3342 s, 0.49 USD\n"
        "resnet50 32 3186 s, 0.47 USD\n"
        "mobilenet_v2 16 535 s, 0.08 USD\n"
        "mobilenet_v2 32 379 s, 0.06 USD\n"
    ),
    "advice": "fastest: aws-p4d.24xlarge\ncheapest: aws-g4dn.xlarge\n",
    "machines": "6 machines, all of them once: True\n",
    "prices": "400 machine\n",
}
CURL_ENDPOINTS = ["predictions", "predictions", "advice", "timings", "devices", *["jobs"] * 3]


def endpoint_of(block: str) -> str:
    return re.search(r"/api/v1/(\w+)/", block).group(1)


def on_server(block: str, url: str) -> str:
    text = block.replace(SITE, url)
    hosts = {urlsplit(address).netloc for address in re.findall(r"https?://[^\s\"'?]+", text)}
    assert hosts == {urlsplit(url).netloc}
    return text


@pytest.fixture
def site(catalogue, live_server) -> str:
    """A server with a catalogue, a timing and a job."""
    run = create_run(machine=catalogue["reference-cpu"])
    create_iteration_timing(
        run=run,
        architecture=Architecture.objects.get(slug="resnet50"),
        batch_size=8,
        samples_ms=[50.0],
    )
    create_job(machine=catalogue["reference-cpu"], state="running")
    return str(live_server.url)


def test_every_example_is_run():
    assert [endpoint_of(block) for block in blocks("python")] == list(PYTHON_OUTPUTS)
    assert [endpoint_of(block) for block in blocks("bash")] == CURL_ENDPOINTS
    assert TEXT.count("```") == 2 * (len(PYTHON_OUTPUTS) + len(CURL_ENDPOINTS))


@pytest.mark.parametrize("block", blocks("python"), ids=endpoint_of)
def test_python_prints(block, site, capsys):
    exec(compile(on_server(block, site), "docs/api.md", "exec"), {})
    assert capsys.readouterr().out == PYTHON_OUTPUTS[endpoint_of(block)]


def run_curl(endpoint: str, url: str, token: str = "", place: int = 0) -> str:
    block = [block for block in blocks("bash") if endpoint_of(block) == endpoint][place]
    result = subprocess.run(
        ["bash", "-c", on_server(block, url)],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "TOKEN": token, "no_proxy": "*"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.fixture
def token() -> str:
    """Of an operator who may start jobs."""
    user = User.objects.create_user("operator", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="add_benchmarkjob"))
    return str(Token.objects.create(user=user).key)


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl program")
class TestCurl:
    def test_predictions(self, site):
        rows = json.loads(run_curl("predictions", site))["rows"]
        assert [(row["machine"], row["batch_size"]) for row in rows] == [
            ("aws-g4dn.xlarge", 16),
            ("aws-g4dn.xlarge", 32),
        ]

    def test_predictions_with_extras(self, site):
        answer = json.loads(run_curl("predictions", site, place=1))
        (row,) = answer["rows"]
        assert (answer["query"]["start_minutes"], answer["query"]["storage_gib"]) == (5, 200)
        assert row["total_seconds"] == pytest.approx(row["epoch_seconds"] + 5 * 60)

    def test_advice(self, site):
        (answer,) = json.loads(run_curl("advice", site))["answers"]
        assert answer["cheapest"]["row"]["machine"] == "aws-g4dn.xlarge"

    def test_timings(self, site):
        (timing,) = json.loads(run_curl("timings", site))["results"]
        assert (timing["batch_size"], timing["milliseconds"]) == (8, 50.0)

    def test_devices(self, site):
        assert run_curl("devices", site) == "304"

    def test_jobs(self, site, token):
        answer = json.loads(run_curl("jobs", site, token))
        assert [job["state"] for job in answer["results"]] == ["running"]

    def test_jobs_are_quoted_and_started(self, site, token, settings):
        settings.BENCHMARK_USD_PER_MONTH = Decimal(50)
        quote = json.loads(run_curl("jobs", site, token, place=1))
        assert (quote["can_start"], quote["timings"]) == (True, 18)
        assert 0 < quote["maximum_usd"] < 1.5
        started = {json.loads(run_curl("jobs", site, token, place=2))["id"] for _ in range(2)}
        job = BenchmarkJob.objects.get(host_kind="ec2")
        assert started == {str(job.pk)}
        assert (job.planned_count, job.maximum_usd) == (8, Decimal("1.5"))
