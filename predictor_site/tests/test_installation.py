"""An installation as a person gets it: prepared, served, asked for a forecast, stopped."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from django.conf import settings

from benchmarking.tests.ports import free_port
from predictions.form import EXAMPLE_MACHINES
from predictor_site.metrics_token import TOKEN_FILE

FORECAST = "architecture=resnet50&machine=reference-cpu&examples=50000&batch_sizes=8,16"
START_SECONDS = 60.0
STOP_SECONDS = 30.0


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working folder of an installation after script/setup, on SQLite and in its own folder."""
    folder = tmp_path_factory.mktemp("installation")
    result = subprocess.run(
        [sys.executable, "-m", "predictor_site.prepare"],
        cwd=settings.BASE_DIR,
        env=bare_environment(folder),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return folder


def test_the_front_page_has_its_curves_before_the_first_visit(installation: Path) -> None:
    with contextlib.closing(sqlite3.connect(installation / "db.sqlite3")) as database:
        stored = database.execute(
            "SELECT architecture.slug, curve.place FROM predictions_forecastcurve AS curve"
            " JOIN benchmarking_architecture AS architecture"
            " ON architecture.id = curve.architecture_id"
        ).fetchall()
    assert sorted(stored) == sorted(("resnet50", machine) for machine in EXAMPLE_MACHINES)


def bare_environment(folder: Path, **variables: str) -> dict[str, str]:
    """An environment with no AWS key, no home folder to find one in, and no other setting."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "EPOCHCAST_VAR_DIR": str(folder),
        "OMP_NUM_THREADS": "1",
        **variables,
    }


@contextlib.contextmanager
def running_server(
    environment: Mapping[str, str], port: int, *options: str
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "predictor_site.server", "--port", str(port), *options],
        cwd=settings.BASE_DIR,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def get(port: int, path: str) -> tuple[int, str]:
    """Status and body, asked again until the server listens."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as response:
                return response.status, response.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()
        except (URLError, ConnectionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def said_until(process: subprocess.Popen[str], last_line: str | None) -> str:
    """What ``process`` prints up to ``last_line``, or up to its end."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        assert "does not answer yet" not in line, "".join(lines)
        if line.rstrip() == last_line:
            break
    return "".join(lines)


def children_of(pid: int) -> list[int]:
    """Every process below ``pid``, as Linux lists them."""
    tasks = Path(f"/proc/{pid}/task")
    direct = [
        int(word)
        for path in tasks.glob("*/children")
        for word in path.read_text(encoding="utf-8").split()
    ]
    return direct + [deeper for child in direct for deeper in children_of(child)]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_preparing_names_a_database_that_does_not_answer(tmp_path: Path) -> None:
    address = f"postgres://nobody@127.0.0.1:{free_port()}/nothing"
    result = subprocess.run(
        [sys.executable, "-m", "predictor_site.prepare"],
        cwd=settings.BASE_DIR,
        env=bare_environment(tmp_path, DATABASE_URL=address),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.startswith("script/setup: connection to server at")
    assert "Traceback" not in result.stderr


def test_preparing_again_changes_nothing(installation: Path) -> None:
    script = (
        "import django; django.setup();"
        "from django.apps import apps;"
        "print({m._meta.label: m.objects.count() for m in apps.get_models()"
        " if m._meta.app_label in ('benchmarking', 'regression', 'predictions')})"
    )
    environment = bare_environment(installation, DJANGO_SETTINGS_MODULE="predictor_site.settings")

    def count_rows() -> str:
        return subprocess.run(
            [sys.executable, "-c", script],
            cwd=settings.BASE_DIR,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    before = count_rows()
    subprocess.run(
        [sys.executable, "-m", "predictor_site.prepare"],
        cwd=settings.BASE_DIR,
        env=environment,
        capture_output=True,
        check=True,
    )
    assert count_rows() == before


def test_the_web_half_answers_without_torch_aws_key_or_worker(
    installation: Path, tmp_path: Path
) -> None:
    for name in ("torch", "torchvision"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('blocked')\n", encoding="utf-8")
    environment = bare_environment(installation, PYTHONPATH=str(tmp_path))
    port = free_port()
    with running_server(environment, port, "--only", "web"):
        assert get(port, "/readyz") == (200, '{"status": "ok"}')
        # Nobody's address opens it; the token is there before it is asked for the first time.
        assert len((installation / TOKEN_FILE).read_text(encoding="utf-8")) == 43
        assert get(port, "/metrics")[0] == 403
        status, page = get(port, f"/?{FORECAST}")
        assert status == 200
        assert "resnet50" in page
        assert "<table" in page
        status, body = get(port, f"/forecast.json?{FORECAST}")
        rows = json.loads(body)["rows"]
        assert status == 200
        assert [row["batch_size"] for row in rows] == [8, 16]
        assert all(row["iteration_ms"] > 0 for row in rows)


def test_an_address_of_ten_thousand_values_is_refused_and_a_long_link_is_not(
    installation: Path,
) -> None:
    port = free_port()
    with running_server(bare_environment(installation), port, "--only", "web"):
        assert get(port, "/livez")[0] == 200
        absurd = "&".join(["machine=reference-cpu"] * 10_000)
        for path in ("/", "/api/v1/machines/"):
            status, text = get(port, f"{path}?{absurd}")
            assert (status, "Request Line is too large" in text) == (414, True)
        long_link = f"{FORECAST}&" + "&".join(["machine=reference-cpu"] * 300)
        status, body = get(port, f"/forecast.json?{long_link}")
        assert (len(long_link) > 6000, status, len(json.loads(body)["rows"])) == (True, 200, 2)


def test_the_server_stops_all_that_it_started(installation: Path) -> None:
    port = free_port()
    with running_server(bare_environment(installation), port) as server:
        assert get(port, "/livez")[0] == 200
        # Pages answer a moment before script/server has seen that they do.
        output = said_until(server, "Ctrl-C stops it.")
        started = children_of(server.pid)
        assert len(started) >= 3
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=STOP_SECONDS)
        output += said_until(server, None)
    assert server.returncode == 0
    assert f"Epochcast is ready: http://127.0.0.1:{port}/" in output
    assert "manage.py createsuperuser" in output
    # Nothing but the welcome: no advice against root, no warning that everybody learns to skip.
    assert "Warning" not in output
    assert [pid for pid in started if is_alive(pid)] == []


def test_a_taken_port_is_named(installation: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with running_server(bare_environment(installation), port) as server:
            output, _ = server.communicate(timeout=STOP_SECONDS)
    assert server.returncode == 1
    assert output == (
        f"script/server: cannot listen on 127.0.0.1 port {port}: it is taken, or not an address "
        "of this machine; choose with --port and --host\n"
    )
