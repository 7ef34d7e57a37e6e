"""Running one DNNMark program: in a folder of its own, for a limited time, with limited output."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

# A run of many batch sizes prints less than a tenth of this.
MAXIMUM_OUTPUT_BYTES = 8 * 2**20
# How long a program may go on after the run was asked to end; who asks waits for 20 s.
SECONDS_AFTER_STOP = 10.0
POLL_SECONDS = 0.02

# cuDNN computes FP32 convolutions in TF32 on Ampere and later unless told otherwise; GPU 0 is to
# be the one that nvidia-smi calls so.
ENVIRONMENT = {"NVIDIA_TF32_OVERRIDE": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@dataclass(frozen=True)
class Output:
    """What a program printed and how it ended.

    ``ended_by`` is empty where it ended by itself, else ``limit``, ``stop`` or ``output``, which
    was more than anybody reads.
    """

    stdout: bytes
    stderr: bytes
    exit_code: int
    ended_by: str = ""


def execute(
    command: Sequence[str],
    folder: Path,
    limit_seconds: float,
    is_stopped: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    maximum_bytes: int = MAXIMUM_OUTPUT_BYTES,
) -> Output:
    """Run a program to its end, or to the end of its time; the files it leaves stay in ``folder``.

    Raises ``OSError`` where it cannot be started.
    """
    stdout_path, stderr_path = folder / "stdout.txt", folder / "stderr.txt"
    started = clock()
    stopped_at = None
    ended_by = ""
    with stdout_path.open("wb") as stdout, stderr_path.open("wb") as stderr:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            preexec_fn=_prepare,
        )
        while process.poll() is None:
            now = clock()
            if stopped_at is None and is_stopped():
                stopped_at = now
            if stopped_at is not None and now - stopped_at > SECONDS_AFTER_STOP:
                ended_by = "stop"
            elif now - started > limit_seconds:
                ended_by = "limit"
            elif max(path.stat().st_size for path in (stdout_path, stderr_path)) > maximum_bytes:
                ended_by = "output"
            if ended_by:
                process.kill()
                process.wait()
                break
            time.sleep(POLL_SECONDS)
    stdout_bytes, stderr_bytes = (_read(path, maximum_bytes) for path in (stdout_path, stderr_path))
    return Output(stdout_bytes, stderr_bytes, process.returncode, ended_by)


def _prepare() -> None:
    # The signal that asks the run to end goes to the whole group, and must not end the timing
    # that is under way.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _read(path: Path, maximum_bytes: int) -> bytes:
    with path.open("rb") as file:
        return file.read(maximum_bytes)
