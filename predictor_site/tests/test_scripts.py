"""The scripts can be run, explain themselves, and refuse wrong options before doing anything."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

SCRIPTS = sorted([*(settings.BASE_DIR / "script").iterdir(), settings.BASE_DIR / ".ci" / "run"])


def run_script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [settings.BASE_DIR / "script" / name, *arguments],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_executable_and_parses(path: Path) -> None:
    assert os.access(path, os.X_OK)
    assert path.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n# ")
    result = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("setup", ("--packages", "--benchmark", "PYTHON")),
        ("server", ("--port", "--host", "--only")),
        ("test", ("--all", "skipped")),
    ],
)
def test_help_names_every_option(name: str, words: tuple[str, ...]) -> None:
    result = run_script(name, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert [word for word in words if word not in result.stdout] == []
    assert "set -euo" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--port", "http"), "--port must be a whole number from 1 to 65535; it is 'http'"),
        (("--port", "0"), "--port must be a whole number from 1 to 65535; it is '0'"),
        (("--port=65536",), "--port must be a whole number from 1 to 65535; it is '65536'"),
        (("--port",), "--port needs a value"),
        (("--host", "a b"), "--host must be an address such as 127.0.0.1; it is 'a b'"),
        (("--only", "cron"), "--only must be web, worker or beat; it is 'cron'"),
        (("--reload",), "unknown option --reload; see script/server --help"),
    ],
)
def test_server_refuses_a_wrong_option(arguments: tuple[str, ...], message: str) -> None:
    result = run_script("server", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"script/server: {message}\n"


@pytest.mark.parametrize("only", ["all", "web"])
def test_a_taken_port_is_said_before_anything_is_set_up(tmp_path: Path, only: str) -> None:
    (tmp_path / "predictor_site").mkdir()
    (tmp_path / "script").mkdir()
    for name in ("script/server", "predictor_site/ports.py"):
        shutil.copy(settings.BASE_DIR / name, tmp_path / name)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = subprocess.run(
            [tmp_path / "script" / "server", "--port", str(port), "--only", only],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"script/server: cannot listen on 127.0.0.1 port {port}: it is taken, or not an address "
        "of this machine; choose with --port and --host\n"
    )


def test_setup_refuses_an_unknown_option() -> None:
    result = run_script("setup", "--everything")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "script/setup: unknown option --everything; see script/setup --help\n"
