"""Files are read in a child process with limits; no test waits for a limit to pass."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarking.onnx_import import untrusted
from benchmarking.onnx_import.errors import LARGEST_FILE_BYTES, OnnxError, UploadError
from benchmarking.onnx_import.reader import read_onnx
from benchmarking.onnx_import.untrusted import UploadKind, read_untrusted
from benchmarking.tests.onnx_import.graphs import small_network
from benchmarking.tracing.fixture import format_traced_networks


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(small_network(input_shape=("n", 3, "h", "w")))
    return path


def test_onnx_comes_back_as_the_reader_gives_it(net: Path):
    network = read_untrusted(net, "onnx", slug="my-net", image_size=48)
    assert network == read_onnx(net, slug="my-net", image_size=48)


def test_traced_json_comes_back(tmp_path: Path):
    network = read_onnx(small_network(), slug="traced-elsewhere")
    path = tmp_path / "net.json"
    path.write_text(format_traced_networks([network]))
    assert read_untrusted(path, UploadKind.TRACE) == network


def test_errors_of_the_reader_come_back_with_their_code(net: Path):
    with pytest.raises(OnnxError) as raised:
        read_untrusted(net, "onnx")
    assert raised.value.code == "image_size_needed"
    assert str(raised.value) == (
        "The graph leaves the image size open; give the image size in pixels."
    )
    with pytest.raises(UploadError) as raised_trace:
        read_untrusted(net, "trace")
    assert not isinstance(raised_trace.value, OnnxError)
    assert raised_trace.value.code in {"not_json", "bad_trace"}


def test_time_limit(net: Path):
    with pytest.raises(UploadError) as raised:
        read_untrusted(net, "onnx", time_limit_seconds=0.001)
    assert raised.value.code == "too_slow"
    assert str(raised.value) == (
        "Reading the file took more than 0.001 seconds; upload a smaller network."
    )


def test_memory_limit(net: Path):
    with pytest.raises(UploadError) as raised:
        read_untrusted(net, "onnx", memory_limit_mib=60)
    assert raised.value.code in {"too_much_memory", "unreadable"}


def test_size_is_checked_before_a_process_starts(tmp_path: Path, monkeypatch):
    def must_not_start(*_args, **_options):
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", must_not_start)
    path = tmp_path / "huge.onnx"
    with path.open("wb") as file:
        file.truncate(LARGEST_FILE_BYTES + 1)
    with pytest.raises(UploadError) as raised:
        read_untrusted(path, "onnx")
    assert raised.value.code == "too_large"
    with pytest.raises(UploadError) as raised:
        read_untrusted(tmp_path / "nowhere.onnx", "onnx")
    assert raised.value.code == "unreadable"


def test_unknown_kind_is_a_programming_error(net: Path):
    with pytest.raises(ValueError, match="'pickle' is not a valid UploadKind"):
        read_untrusted(net, "pickle")


@pytest.mark.parametrize(
    "script",
    [
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "print('[1]')",
        'print(\'{"network": "{}"}\'); raise SystemExit(3)',
        "raise RuntimeError('broken')",
    ],
)
def test_a_reader_that_breaks_is_one_sentence(net: Path, monkeypatch, script: str):
    run = untrusted._run

    def run_other(command, *rest):
        return run([sys.executable, "-c", script], *rest)

    monkeypatch.setattr(untrusted, "_run", run_other)
    with pytest.raises(UploadError) as raised:
        read_untrusted(net, "onnx")
    assert raised.value.code == "unreadable"
    assert str(raised.value) == (
        "The file cannot be read: it broke its reader or needs more memory than is allowed."
    )


def test_the_child_sees_its_limits_and_nothing_of_ours(net: Path, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "do-not-tell")
    run = untrusted._run
    script = (
        "import json, os, resource, sys\n"
        "from benchmarking.onnx_import.child import limit_resources\n"
        "limit_resources(2.5, 300)\n"
        "limits = [resource.getrlimit(getattr(resource, 'RLIMIT_' + n)) for n in "
        "('CPU', 'AS', 'FSIZE', 'CORE')]\n"
        "seen = [limits, 'SECRET_KEY' in os.environ, 'torch' in sys.modules, "
        "'django' in sys.modules]\n"
        "json.dump({'code': 'seen', 'message': json.dumps(seen)}, sys.stdout)\n"
    )
    monkeypatch.setattr(
        untrusted, "_run", lambda command, *rest: run([sys.executable, "-c", script], *rest)
    )
    with pytest.raises(UploadError) as raised:
        read_untrusted(net, "onnx")
    mebibyte = 2**20
    expected = [[3, 4], [300 * mebibyte] * 2, [32 * mebibyte] * 2, [0, 0]]
    assert str(raised.value) == str([expected, False, False, False]).replace("False", "false")
    assert resource.getrlimit(resource.RLIMIT_AS)[0] != 300 * mebibyte


def test_the_reader_needs_neither_torch_nor_django():
    script = (
        "import sys; import benchmarking.onnx_import.reader, benchmarking.onnx_import.trace_json\n"
        "print(sorted({'torch', 'django'} & set(sys.modules)))"
    )
    root = Path(untrusted.__file__).resolve().parents[2]
    output = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True
    )
    assert output.stdout == "[]\n"
