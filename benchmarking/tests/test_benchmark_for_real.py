"""The whole way with nothing replaced: real commands, a real probe, real timings on this CPU."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

pytestmark = pytest.mark.torch

# Tables are made from the models, which is quicker than going through the migrations.
SETTINGS = """
from predictor_site.settings import *

MIGRATION_MODULES = {app.split(".")[-1]: None for app in INSTALLED_APPS}
"""
COMMAND = ("benchmark", "--machine", "local", "--architectures", "squeezenet1_1")
# The largest keeps the probe busy for seconds after the first timings are stored.
BATCH_SIZES = ("--batch-sizes", "1,2,16")
WAIT_SECONDS = 300


class Installation:
    """A working folder and a database of its own, and the commands of this repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "db.sqlite3"
        (folder / "installation_settings.py").write_text(SETTINGS)
        self.environment = {
            **os.environ,
            "DATABASE_URL": f"sqlite:///{self.database}",
            "EPOCHCAST_VAR_DIR": str(folder),
            "DJANGO_SETTINGS_MODULE": "installation_settings",
            "PYTHONPATH": f"{folder}{os.pathsep}{settings.BASE_DIR}",
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=settings.BASE_DIR,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str) -> str:
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=WAIT_SECONDS)
        assert process.returncode == 0, output
        return output.strip()

    def query(self, sql: str) -> list[tuple[object, ...]]:
        with sqlite3.connect(f"file:{self.database}?mode=ro", uri=True) as connection:
            return connection.execute(sql).fetchall()

    def probe_groups(self) -> list[int]:
        texts = [path.read_text() for path in self.folder.glob("runs/*/process")]
        return [int(text.split()[0]) for text in texts if text.split()[:1] != ["released"]]


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path)
    installation.run("migrate", "--run-syncdb", "--verbosity", "0")
    installation.run("load_catalogue")
    installation.run("load_architectures")
    yield installation
    for group in installation.probe_groups():
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_killed_benchmark_measures_only_what_is_missing(installation: Installation) -> None:
    first = installation.start(*COMMAND, *BATCH_SIZES)
    end = time.monotonic() + WAIT_SECONDS
    while not stored(installation):
        assert first.poll() is None, first.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.02)
    first.kill()
    first.communicate()
    for group in installation.probe_groups():
        os.killpg(group, signal.SIGKILL)

    output = installation.run(*COMMAND, *BATCH_SIZES)

    jobs = installation.query(
        "SELECT state, planned_count, stored_count FROM benchmarking_benchmarkjob"
        " ORDER BY created_at"
    )
    (_, planned, measured_first), *others = jobs
    assert others == [("succeeded", planned - measured_first, planned - measured_first)], output
    assert 0 < measured_first < planned
    # Each of the network's layers and iterations once, and none of them twice.
    assert installation.query("SELECT count(*) FROM benchmarking_iterationtiming") == [(3,)]
    ((timings, keys),) = installation.query(
        "SELECT count(*), count(DISTINCT layer_id || '/' || batch_size || '/' || operation)"
        " FROM benchmarking_layertiming"
    )
    assert timings == keys
    assert installation.run(*COMMAND, *BATCH_SIZES).endswith(
        f"nothing is missing ({timings + 3} are measured or under way)."
    )
    ((slowest, fastest),) = installation.query(
        "SELECT max(milliseconds), min(milliseconds) FROM benchmarking_iterationtiming"
    )
    assert 0.1 < fastest < slowest < 60_000


def stored(installation: Installation) -> bool:
    return installation.query(
        "SELECT count(*) FROM benchmarking_layertiming WHERE operation = 'forward'"
    ) > [(3,)]
