"""Private keys appear nowhere: everything that jobs leave behind is searched for them."""

from __future__ import annotations

import base64
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery.signals import before_task_publish
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from django.conf import settings
from django.db import connection
from django.test import Client
from django.urls import reverse

from benchmarking.hosts.base import HostFaultError, HostUnavailableError
from benchmarking.hosts.keys import make_key_pair, read_private_key
from benchmarking.hosts.ssh import SshHost, SshTarget
from benchmarking.hosts.ssh.connection import SshConnection
from benchmarking.jobs.advance import advance_job
from benchmarking.jobs.secrets import SecretErasedError, create_job_secret, read_job_secret
from benchmarking.models import BenchmarkJob, JobEvent, RemoteHost
from benchmarking.tasks import ring_for_job
from benchmarking.tests import factories
from benchmarking.tests.jobs.over_ssh import create_remote_host, create_ssh_job, finish
from benchmarking.tests.sshd import FakeMachine

pytestmark = [pytest.mark.sshd, pytest.mark.django_db]

PAGES = ("jobs", "job-spending", "machines", "admin:index", "api-jobs", "api-machines")
JOB_PAGES = ("job", "job-progress", "api-job", "admin:benchmarking_benchmarkjob_change")


class Keys:
    """What must not be found: each private key as PEM, line by line, and as bare numbers."""

    def __init__(self) -> None:
        self.needles = {"PRIVATE KEY"}

    def add(self, pem: str) -> None:
        # Lines of the header are the same in every key and in the public half.
        body = base64.b64decode("".join(pem.splitlines()[1:-1]))
        seed = load_ssh_private_key(pem.encode(), None).private_bytes_raw()
        assert seed in body
        self.needles |= {line for line in pem.splitlines()[2:-1] if len(line) > 20}
        self.needles |= {seed.hex(), base64.b64encode(seed).decode(), repr(seed)[2:-1]}

    def assert_absent(self, where: str, text: str) -> None:
        assert text, f"nothing was searched in {where}"
        found = [needle for needle in self.needles if needle in text]
        assert not found, f"a private key is in {where}"


@pytest.fixture
def keys() -> Keys:
    return Keys()


@pytest.fixture
def computer(tmp_path: Path, keys: Keys) -> Iterator[FakeMachine]:
    with FakeMachine(tmp_path / "computer") as computer:
        keys.add(computer.login_keys.private_key)
        yield computer


@pytest.fixture
def messages() -> Iterator[list[str]]:
    """Every message that Celery was given."""
    seen: list[str] = []

    def keep(sender: Any = None, body: Any = None, headers: Any = None, **more: Any) -> None:
        seen.append(f"{sender} {body} {headers} {more}")

    before_task_publish.connect(keep)
    yield seen
    before_task_publish.disconnect(keep)


def database_dump() -> str:
    """Every value of every table, binary ones as they lie there."""
    rows = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            for row in cursor.fetchall():
                values = [bytes(each) if isinstance(each, memoryview) else each for each in row]
                rows.append(f"{table} {values!r}")
    return "\n".join(rows)


def pages_of(client: Client, job: BenchmarkJob, host: RemoteHost) -> str:
    urls = [reverse(name) for name in PAGES]
    urls += [reverse(name, args=[job.pk]) for name in JOB_PAGES]
    urls += [
        reverse("admin:benchmarking_remotehost_change", args=[host.pk]),
        reverse("admin:benchmarking_remotehost_history", args=[host.pk]),
        reverse("admin:benchmarking_remotehost_changelist"),
        reverse("admin:benchmarking_benchmarkjob_changelist"),
    ]
    answers = [client.get(url) for url in urls]
    assert {answer.status_code for answer in answers} == {200}
    return "\n".join(answer.content.decode() for answer in answers)


def break_down(self: SshConnection, *arguments: Any, **options: Any) -> None:
    raise RuntimeError(f"broken at {self._target!r} {vars(self)!r}")


def test_r8_private_keys_are_in_nothing_that_jobs_leave_behind(
    computer: FakeMachine,
    keys: Keys,
    admin_client: Client,
    messages: list[str],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (None, "paramiko", "benchmarking", "django"):
        caplog.set_level(logging.DEBUG, logger=name)
    host = create_remote_host(computer)
    measured, broken = create_ssh_job(host), create_ssh_job(host)
    for job in (measured, broken):
        create_job_secret(job)
        secrets = read_job_secret(job)
        keys.add(secrets.login_private_key)
        keys.add(secrets.host_private_key)
        ring_for_job(job.pk, 0.0)
    keys.assert_absent("the database while jobs wait", database_dump())

    assert finish(measured).state == "succeeded"
    with pytest.raises(SecretErasedError):
        read_job_secret(measured)
    with monkeypatch.context() as patch:
        patch.setattr(SshConnection, "run", break_down)
        BenchmarkJob.objects.filter(pk=broken.pk).update(state="running")
        for _ in range(5):
            BenchmarkJob.objects.filter(pk=broken.pk).update(due_at=broken.created_at)
            advance_job(broken.pk)
    pages = pages_of(admin_client, broken, host)

    events = "\n".join(JobEvent.objects.values_list("message", flat=True))
    assert "RuntimeError: broken at SshTarget(address=" in events
    assert "Authentication (publickey) successful" in caplog.text
    keys.assert_absent("the database", database_dump())
    keys.assert_absent("events", events)
    keys.assert_absent("logs", caplog.text)
    keys.assert_absent("standard output and error", "".join(capfd.readouterr()) + "searched")
    keys.assert_absent("pages, forms and answers of the API", pages)
    keys.assert_absent("messages", "\n".join(messages))
    left_there = [path for path in computer.run_folder(measured.pk).iterdir() if path.is_file()]
    keys.assert_absent(
        "the files on the machine",
        "\n".join(path.read_text() for path in left_there if path.name != "probe.py"),
    )
    keys.assert_absent("the commands sent there", "\n".join(computer.commands))


def test_r8_errors_and_representations_show_no_key(computer: FakeMachine, keys: Keys) -> None:
    job = factories.create_job()
    create_job_secret(job)
    secrets = read_job_secret(job)
    stranger = make_key_pair()
    keys.add(secrets.login_private_key)
    keys.add(secrets.host_private_key)
    keys.add(stranger.private_key)
    damaged = computer.login_keys.private_key[:-60]
    targets = [
        SshTarget(**computer.target_values(**changes))
        for changes in (
            {"login_private_key": stranger.private_key},
            {"login_private_key": damaged},
            {"host_public_key": stranger.public_key},
            {"port": 9},
        )
    ]

    errors = []
    for target in targets:
        with pytest.raises((HostFaultError, HostUnavailableError)) as info:
            SshHost(target).check()
        errors.append(f"{info.value} {info.value!r} {info.getrepr(style='short')}")
        errors.append(f"{target} {target!r} {info.value.__cause__!r}")
    shown = (
        f"{secrets} {secrets!r} {stranger} {stranger!r} {read_private_key(stranger.private_key)}"
    )

    keys.assert_absent("errors", "\n".join(errors))
    keys.assert_absent("representations", shown)


def test_r8_search_finds_a_key_that_is_there(keys: Keys) -> None:
    pair = make_key_pair()
    keys.add(pair.private_key)

    for text in (pair.private_key, pair.private_key.splitlines()[3]):
        with pytest.raises(AssertionError, match="a private key is in a test"):
            keys.assert_absent("a test", text)
    keys.assert_absent("a public key", pair.public_key)


def test_web_process_loads_no_ssh_client(tmp_path: Path) -> None:
    program = """
import sys, predictor_site.wsgi
from django.urls import reverse
for name in ("forecast", "job-new", "admin:benchmarking_remotehost_changelist", "api-jobs"):
    reverse(name)
print([name for name in ("paramiko", "torch") if name in sys.modules])
"""
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=settings.BASE_DIR,
        env={
            "PATH": "/usr/bin:/bin",
            "SECRET_KEY": "of this test alone",
            "EPOCHCAST_VAR_DIR": str(tmp_path),
            "DJANGO_SETTINGS_MODULE": "predictor_site.settings",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.stdout == "[]\n", result.stderr
