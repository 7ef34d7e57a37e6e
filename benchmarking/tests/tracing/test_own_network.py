"""``python -m benchmarking.tracing``: the JSON of a network of one's own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from benchmarking.tracing.__main__ import main
from benchmarking.tracing.fixture import load_traced_file, parse_traced_networks

pytestmark = pytest.mark.torch

OWN = """
import torch
from helper import CHANNELS

print("importing")

class MyNet(torch.nn.Sequential):
    def __init__(self):
        super().__init__(
            torch.nn.Conv2d(CHANNELS, 8, 3), torch.nn.Flatten(), torch.nn.LazyLinear(10)
        )

def my_network():
    print("building")
    return MyNet()

def no_module():
    return 3

def broken():
    raise RuntimeError("first line\\nsecond line")

A_NUMBER = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "helper.py").write_text("CHANNELS = 3\n")
    (tmp_path / "bad.py").write_text("import no_such_package\n")
    path = tmp_path / "own_network.py"
    path.write_text(OWN)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("own_network", "helper", "bad"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return path


def test_it_prints_the_json_and_nothing_else(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([f"{own}:my_network", "--image-size", "32"])
    output = capsys.readouterr()
    (network,) = parse_traced_networks(output.out).networks
    assert (network.slug, network.family, network.image_size) == ("my_network", "own", 32)
    assert network.parameters == 3 * 8 * 9 + 8 + 8 * 30 * 30 * 10 + 10
    assert "building" in output.err


def test_a_class_works_as_a_function_and_its_name_becomes_a_slug(own: Path, tmp_path: Path) -> None:
    output = tmp_path / "out" / "net.json"
    main([f"{own}:MyNet", "--output", str(output)])
    loaded = load_traced_file(output)
    assert [(n.slug, n.image_size) for n in loaded.networks] == [("mynet", 224)]
    assert loaded.source == "own"
    assert list(loaded.versions) == ["torch"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("own_network.py", "is not of the form FILE.py:function"),
        ("missing.py:my_network", "missing.py: no such file"),
        ("helper.txt:f", "helper.txt: no such file"),
        (
            "own_network.py:my_netwrok",
            "no function 'my_netwrok' (did you mean my_network or MyNet?)",
        ),
        ("own_network.py:A_NUMBER", "no function 'A_NUMBER'"),
        ("own_network.py:no_module", "returned int, not a torch.nn.Module"),
        ("own_network.py:broken", "building it failed: first line"),
        ("bad.py:f", "ModuleNotFoundError: No module named 'no_such_package'"),
    ],
)
def test_bad_targets_end_with_one_line_and_exit_code_2(
    own: Path, target: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([str(own.parent / target)])
    assert caught.value.code == 2
    output = capsys.readouterr()
    assert output.out == ""
    last = output.err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last
    assert "Traceback" not in output.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--image-size", "2"], "cannot train on 2 px images"),
        (["--image-size", "0"], "image size 0 is not between 1 and 4096"),
        (["--image-size", "big"], "invalid int value: 'big'"),
        (["--slug", "Not Allowed"], "'Not Allowed' is not allowed"),
        (["--channels", "4"], "channel"),
        (["--output", "/proc/no/such.json"], "/proc/no"),
    ],
)
def test_bad_options_end_with_one_line_and_exit_code_2(
    own: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([f"{own}:my_network", *options])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err.strip().splitlines()[-1]


def test_it_runs_as_a_module(own: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarking.tracing", f"{own}:my_network", "--image-size", "8"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout)["networks"][0]["image_size"] == 8
