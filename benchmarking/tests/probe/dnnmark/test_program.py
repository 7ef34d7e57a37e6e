"""The program for DNNMark is one file that runs far away, on old Pythons, with nothing of ours."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from benchmarking.probe.dnnmark import program
from benchmarking.probe.dnnmark.program import dnnmark_program
from benchmarking.tests.probe.test_probe_file import imported_names

ARCHIVE = zipfile.ZipFile(io.BytesIO(dnnmark_program()))
SOURCES = {name: ARCHIVE.read(name).decode() for name in ARCHIVE.namelist()}
# What Python 3.8 does not have; annotations are never evaluated.
NEWER = {"removeprefix", "removesuffix", "pairwise", "UTC", "cache", "StrEnum"}


@pytest.mark.parametrize("name", SOURCES)
def test_syntax_and_names_are_those_of_python_3_8(name: str) -> None:
    tree = ast.parse(SOURCES[name], feature_version=(3, 8))

    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    used |= {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert not used & NEWER
    if "annotations" not in used:
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.AnnAssign | ast.arg)]


@pytest.mark.parametrize("name", SOURCES)
def test_nothing_is_imported_that_is_not_in_it(name: str) -> None:
    tree = ast.parse(SOURCES[name])

    ours = {
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("benchmarking")
    }
    assert {f"{module.replace('.', '/')}.py" for module in ours} <= set(SOURCES)
    foreign = imported_names(tree) - set(sys.stdlib_module_names) - {"benchmarking"}
    assert foreign <= {"torch", "torchvision"}


def test_same_modules_make_the_same_bytes() -> None:
    first = dnnmark_program()
    program.dnnmark_program.cache_clear()

    assert dnnmark_program() == first


def test_it_runs_under_the_name_of_the_probe_and_refuses_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "probe.py"
    path.write_bytes(dnnmark_program())

    result = subprocess.run(
        [sys.executable, "-I", str(path)],
        input=json.dumps({"schema": 99}).encode(),
        capture_output=True,
        cwd=tmp_path,
        check=False,
    )

    assert result.returncode == 2
    assert result.stdout == b""
    assert result.stderr == b"probe: this probe reads plans of schema 1\n"
