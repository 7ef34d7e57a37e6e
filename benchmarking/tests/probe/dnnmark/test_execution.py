"""One program: for a limited time, with limited output, and deaf to the signal of its group."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from pathlib import Path

import pytest

from benchmarking.probe.dnnmark.execution import SECONDS_AFTER_STOP, execute
from benchmarking.probe.dnnmark.tree import cudnn_number, find_tree, linked_versions
from benchmarking.tests.probe.dnnmark_stub import build_tree

SLEEPER = ["sleep", "60"]


def never() -> bool:
    return False


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_both_streams_and_the_exit_code_come_back(tmp_path: Path) -> None:
    code = "import sys; print('a'); print('b', file=sys.stderr); sys.exit(7)"

    output = execute(python(code), tmp_path, 60.0, never)

    assert (output.stdout, output.stderr, output.exit_code) == (b"a\n", b"b\n", 7)
    assert output.ended_by == ""


def test_cudnn_is_told_to_compute_in_fp32_on_the_first_gpu(tmp_path: Path) -> None:
    names = "'NVIDIA_TF32_OVERRIDE', 'CUDA_DEVICE_ORDER'"
    code = f"import os; print(*(os.environ[name] for name in ({names})))"

    assert execute(python(code), tmp_path, 60.0, never).stdout == b"0 PCI_BUS_ID\n"


def test_limit_ends_it(tmp_path: Path) -> None:
    clock = itertools.count(0.0, 31.0)

    output = execute(SLEEPER, tmp_path, 60.0, never, clock=lambda: next(clock))

    assert (output.ended_by, output.exit_code) == ("limit", -signal.SIGKILL)


def test_stop_lets_it_go_on_for_a_moment(tmp_path: Path) -> None:
    seconds = itertools.count(0.0, SECONDS_AFTER_STOP / 2.5)
    looks: list[float] = []

    def clock() -> float:
        looks.append(next(seconds))
        return looks[-1]

    output = execute(SLEEPER, tmp_path, 1e9, lambda: True, clock=clock)

    assert output.ended_by == "stop"
    assert looks[-1] - looks[1] > SECONDS_AFTER_STOP
    assert looks[-2] - looks[1] <= SECONDS_AFTER_STOP


def test_signal_of_the_group_does_not_end_it(tmp_path: Path) -> None:
    code = (
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM); "
        "os.kill(os.getpid(), signal.SIGINT); print('on')"
    )

    assert execute(python(code), tmp_path, 60.0, never).stdout == b"on\n"


def test_output_without_an_end_ends_it(tmp_path: Path) -> None:
    code = "while True: print('x' * 1000)"

    output = execute(python(code), tmp_path, 60.0, never, maximum_bytes=5000)

    assert output.ended_by == "output"
    assert len(output.stdout) == 5000


def test_versions_are_those_of_the_linked_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = find_tree(str(build_tree(tmp_path / "DNNMark")))
    assert linked_versions(tree) == ("", "")
    for name in ("libcudart.so.11.3.109", "libcudnn.so.8.2.1"):
        (tmp_path / name).touch()
    (tmp_path / "libcudart.so.11.0").symlink_to(tmp_path / "libcudart.so.11.3.109")
    (tmp_path / "libcudnn.so.8").symlink_to(tmp_path / "libcudnn.so.8.2.1")
    ldd = tmp_path / "bin" / "ldd"
    ldd.parent.mkdir()
    ldd.write_text(
        "#!/bin/sh\n"
        f"echo '\tlibcudart.so.11.0 => {tmp_path}/libcudart.so.11.0 (0x00007f)'\n"
        f"echo '\tlibcudnn.so.8 => {tmp_path}/libcudnn.so.8 (0x00007f)'\n"
    )
    ldd.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ldd.parent}{os.pathsep}{os.environ['PATH']}")

    assert linked_versions(tree) == ("11.3", "8201")


def test_cudnn_counts_its_versions_in_two_ways() -> None:
    assert cudnn_number("7.6.5") == "7605"
    assert cudnn_number("8.2.1.32") == "8201"
    assert cudnn_number("9.1.0") == "90100"
    assert cudnn_number("8") == ""
