"""The command that imports results of any machine."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from benchmarking.models import IterationTiming, LayerTiming, Machine, MeasurementRun
from benchmarking.tests.factories import create_architecture, create_cpu_machine
from benchmarking.tests.probe_lines import (
    as_bytes,
    convolution_line,
    done_line,
    environment_line,
    iteration_line,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def machine() -> Machine:
    create_architecture(slug="tinynet")
    return create_cpu_machine(slug="local")


def import_files(*paths: Path, machine: str | None = None) -> str:
    output = io.StringIO()
    call_command("import_measurements", *map(str, paths), machine=machine, stdout=output)
    return output.getvalue().strip()


def refusal(*paths: Path, machine: str | None = None) -> str:
    with pytest.raises(CommandError) as refused:
        import_files(*paths, machine=machine)
    assert refused.value.returncode == 2
    assert "\n" not in str(refused.value)
    return str(refused.value)


def run_lines() -> bytes:
    return as_bytes(environment_line(), convolution_line(), iteration_line(), done_line())


def test_plain_and_compressed_files_are_imported(machine: Machine, tmp_path: Path) -> None:
    plain, compressed = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    plain.write_bytes(run_lines())
    compressed.write_bytes(gzip.compress(run_lines()))

    assert import_files(plain, compressed) == (
        "local: 2 layer timings, 2 iteration timings and 0 failures stored from 2 new runs; "
        "0 were stored before"
    )
    assert import_files(plain) == (
        "local: 0 layer timings, 0 iteration timings and 0 failures stored from 0 new runs; "
        "2 were stored before"
    )
    assert (LayerTiming.objects.count(), IterationTiming.objects.count()) == (2, 2)


def test_machine_can_be_named(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(as_bytes(environment_line(machine="my computer"), convolution_line()))

    assert refusal(path).startswith(f"{path}: unknown machine 'my computer'")
    assert import_files(path, machine="local").startswith("local: 1 layer timings")
    assert refusal(path, machine="lokal") == "unknown machine 'lokal' (did you mean local?)"


def test_one_wrong_file_keeps_all_of_them_out(machine: Machine, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_bytes(run_lines())
    bad.write_bytes(as_bytes(environment_line(), iteration_line(architecture="unheard_of")))

    assert refusal(good, bad) == f"{bad}: line 2: unknown architecture 'unheard_of'"
    assert MeasurementRun.objects.count() == 0


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.jsonl", run_lines()[:-30], "line 4: is cut off, the file is truncated"),
        ("a.jsonl", b"", "line 1: the file is empty"),
        ("a.jsonl", b"\x80abc\n", "line 1: is not UTF-8 text"),
        ("a.jsonl", as_bytes(environment_line(schema=3)), "line 1: has schema 3; this version"),
        ("a.jsonl", b"x" * 2_000_000, "line 1: is "),
        ("a.txt", b"", "line 1: the file holds no times of DNNMark; allowed are its logs, and"),
        ("a.txt", run_lines(), "line 1: the file holds no times of DNNMark; allowed are its"),
        ("a.jsonl.gz", b"plain", "cannot be read: Not a gzipped file"),
        ("a.jsonl.gz", gzip.compress(run_lines())[:-40], "cannot be read: Compressed file ended"),
        ("a.jsonl.gz", gzip.compress(run_lines())[:-8] + b"12345678", "cannot be read: CRC check"),
    ],
)
def test_wrong_files_get_one_line_each(
    machine: Machine, tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    assert refusal(path).startswith(f"{path}: {reason}")
    assert MeasurementRun.objects.count() == 0


def test_missing_file_and_folder_are_refused(machine: Machine, tmp_path: Path) -> None:
    missing, folder = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    folder.mkdir()

    assert refusal(missing) == f"{missing}: cannot be read: No such file or directory"
    assert refusal(folder) == f"{folder}: cannot be read: Is a directory"
