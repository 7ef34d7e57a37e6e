"""docs/user-guide.md: its commands run as they stand, its pictures and its words are real."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings
from django.core.management import call_command
from PIL import Image

from benchmarking.models import Device, Machine
from benchmarking.onnx_import.reader import UNFOLDED_EXPORT
from benchmarking.tests.factories import create_machine, create_price
from predictions.exports import to_csv_text
from predictions.forecast import load_choices, make_forecast
from predictions.query import parse_query
from predictions.tests.uploads.conftest import trace_text

SITE = "http://localhost:8000"
DOCS = settings.BASE_DIR / "docs"
GUIDE = (DOCS / "user-guide.md").read_text(encoding="utf-8")
LARGEST_PICTURE_BYTES = 120_000
COMMANDS = ["forecast.csv", "api/v1/predictions", "manage.py predict", "benchmarking.tracing",
            "api/v1/uploads"]  # fmt: skip


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, flags=re.MULTILINE | re.DOTALL)


def command_with(words: str) -> str:
    (found,) = (block for block in blocks("bash") if words in block)
    return str(found)


def pictures_script() -> ModuleType:
    specification = importlib.util.spec_from_file_location("pictures", DOCS / "pictures.py")
    module = importlib.util.module_from_spec(specification)
    # Data classes look their module up by its name.
    sys.modules["pictures"] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def machines(catalogue) -> None:
    """The machines that the guide names and the small catalogue lacks."""
    gpu = Device.objects.get(slug="a100-sxm4-40gb")
    for slug, usd in (
        ("aws-g5.xlarge", "1.006"),
        ("aws-g6e.xlarge", "1.861"),
        ("lambda-gpu_1x_a6000", "1.09"),
    ):
        create_price(machine=create_machine(slug=slug, device=gpu), usd_per_hour=usd)


def run_in_shell(command: str, url: str, folder: Path) -> str:
    result = subprocess.run(
        ["bash", "-c", command.replace(SITE, url)],
        cwd=folder,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "no_proxy": "*"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def test_every_command_is_run_here():
    assert [next(name for name in COMMANDS if name in block) for block in blocks("bash")] == (
        COMMANDS
    )
    assert len(blocks("python")) == 2
    assert GUIDE.count("```") == 2 * (len(COMMANDS) + 2)


def test_u1_the_address_of_the_decision_is_what_the_form_would_write(machines):
    (address,) = re.findall(rf"^<({SITE}/\?.*)>$", GUIDE, flags=re.MULTILINE)
    asked = parse_qs(urlsplit(address).query)
    query = parse_query(asked, load_choices())
    assert query.to_query_string() == urlsplit(address).query
    assert (query.epochs, query.max_usd, query.max_hours) == (90, 150, 120)
    assert "for at most $150 and within five days" in GUIDE
    assert Machine.objects.filter(slug__in=query.machines).count() == len(query.machines) == 5


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl program")
def test_u2_csv_api_and_command_line_have_equal_rows(machines, live_server, tmp_path, capsys):
    run_in_shell(command_with("forecast.csv"), live_server.url, tmp_path)
    of_page = (tmp_path / "forecast.csv").read_bytes().decode()
    answer = json.loads(run_in_shell(command_with("api/v1/predictions"), live_server.url, tmp_path))
    words = shlex.split(command_with("manage.py predict"))
    assert words[:3] == [".venv/bin/python", "manage.py", "predict"]
    call_command(*words[2:], "--format", "csv")
    assert list(csv.DictReader(io.StringIO(capsys.readouterr().out))) == list(
        csv.DictReader(io.StringIO(of_page))
    )
    call_command(*words[2:], "--format", "json")
    assert json.loads(capsys.readouterr().out)["rows"] == answer["rows"]
    assert {row["machine"] for row in answer["rows"]} == {"aws-g5.xlarge", "aws-g6e.xlarge"}
    asked = parse_qs(urlsplit(command_with("forecast.csv").split("'")[1]).query)
    assert of_page == to_csv_text(make_forecast(parse_query(asked, load_choices())).rows)


def test_the_notebook_names_what_to_rent(machines, live_server, capsys):
    (block,) = (block for block in blocks("python") if "advice" in block)
    exec(compile(block.replace(SITE, live_server.url), "docs/user-guide.md", "exec"), {})
    assert [line.rsplit(" at batch ")[0] for line in capsys.readouterr().out.splitlines()] == [
        "fastest aws-g5.xlarge",
        "cheapest aws-g5.xlarge",
    ]


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl program")
def test_a_traced_network_is_sent_and_has_a_name_for_queries(machines, live_server, tmp_path):
    (tmp_path / "my_network.json").write_text(trace_text(), encoding="utf-8")
    answer = json.loads(run_in_shell(command_with("uploads"), live_server.url, tmp_path))
    assert answer["architecture"].startswith("own-")
    assert answer["page"].startswith("/own/")


@pytest.mark.torch
def test_the_tracer_writes_the_file_that_is_sent(tmp_path):
    (tmp_path / "my_network.py").write_text(
        "from torch import nn\n\n"
        "def make_network():\n"
        "    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.LazyLinear(10))\n",
        encoding="utf-8",
    )
    program, *words = shlex.split(command_with("benchmarking.tracing"))
    assert program == ".venv/bin/python"
    subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(settings.BASE_DIR)},
        check=True,
        capture_output=True,
        timeout=300,
    )
    assert json.loads((tmp_path / "my_network.json").read_text(encoding="utf-8"))


def test_the_export_is_the_one_that_refusals_recommend():
    export = UNFOLDED_EXPORT.removeprefix("export with ").replace("'", '"')
    assert export in GUIDE


class TestPictures:
    NAMED = {
        name: path
        for path in ("README.md", "docs/user-guide.md")
        for name in re.findall(
            r"!\[[^\]]+\]\((?:docs/)?images/([\w-]+)\.png\)",
            (settings.BASE_DIR / path).read_text(encoding="utf-8"),
        )
    }

    @pytest.fixture
    def taken(self) -> dict[str, str]:
        """The script's pictures: name and path of the page."""
        return {picture.name: picture.path for picture in pictures_script().PICTURES}

    def test_the_script_takes_what_the_documents_show_and_nothing_else(self, taken):
        assert set(taken) == set(self.NAMED)
        assert {path.stem for path in (DOCS / "images").iterdir()} == set(taken)

    def test_a_picture_is_small(self):
        for name in self.NAMED:
            path = DOCS / "images" / f"{name}.png"
            assert path.stat().st_size < LARGEST_PICTURE_BYTES, name
            with Image.open(path) as image:
                assert image.mode == "P", name
                assert image.width >= 1000, name

    def test_the_pictures_of_the_decision_are_of_its_address(self, taken):
        (address,) = re.findall(rf"^<{SITE}(/\?.*)>$", GUIDE, flags=re.MULTILINE)
        shown = {name for name, path in taken.items() if path == address}
        assert shown == {"guide-question", "guide-curve", "guide-table"}
