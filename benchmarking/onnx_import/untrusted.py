"""Reads an uploaded file in a process of its own, with limits on time, memory and output.

The child imports neither Django nor torch, gets no environment of ours, and answers with the
fixture format, which the parent checks like any other file.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from benchmarking.onnx_import.errors import LARGEST_FILE_BYTES, MEBIBYTE, OnnxError, UploadError
from benchmarking.specs import TracedNetwork
from benchmarking.tracing.errors import FixtureError
from benchmarking.tracing.fixture import parse_traced_networks

logger = logging.getLogger(__name__)

_SOURCE_ROOT = Path(__file__).resolve().parents[2]
LARGEST_ANSWER_BYTES = 16 * MEBIBYTE


class UploadKind(StrEnum):
    """What a person uploads."""

    ONNX = "onnx"
    TRACE = "trace"


def read_untrusted(
    path: Path,
    kind: UploadKind | str,
    time_limit_seconds: float = 30.0,
    memory_limit_mib: int = 1024,
    *,
    slug: str = "own-network",
    image_size: int | None = None,
) -> TracedNetwork:
    """Read a file that nobody vouches for.

    Parameters
    ----------
    path
        The uploaded file.
    kind
        ``onnx`` or ``trace`` (the tracer's JSON).
    time_limit_seconds
        Both processor time and waiting time of the child.
    memory_limit_mib
        Address space of the child; its libraries take about 200 of it.
    slug
        Name of an ONNX network; a traced one brings its own.
    image_size
        Image size in pixels where an ONNX graph leaves it open.

    Raises
    ------
    UploadError
        With one sentence: the file's fault, or ``too_slow``, ``too_much_memory``,
        ``unreadable``.
    """
    kind = UploadKind(kind)
    _check_size(path)
    command = [
        sys.executable,
        "-P",
        "-m",
        "benchmarking.onnx_import.child",
        kind.value,
        str(path.resolve()),
        slug,
        str(image_size or 0),
        repr(float(time_limit_seconds)),
        str(memory_limit_mib),
    ]
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as complaints:
        return_code = _run(command, answer, complaints, time_limit_seconds)
        if return_code is None or return_code == -signal.SIGXCPU:
            raise UploadError(
                f"Reading the file took more than {time_limit_seconds:g} seconds; "
                "upload a smaller network.",
                code="too_slow",
            )
        return _result(_read(answer), return_code, _read(complaints))


def _check_size(path: Path) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UploadError(
            f"The file cannot be read: {error.strerror or error}.", code="unreadable"
        ) from error
    if size > LARGEST_FILE_BYTES:
        raise UploadError(
            f"The file has {size / MEBIBYTE:.0f} MiB; at most {LARGEST_FILE_BYTES // MEBIBYTE} are "
            "allowed: weights are not needed, so save them outside of the .onnx file.",
            code="too_large",
        )


def _run(
    command: list[str], answer: IO[bytes], complaints: IO[bytes], time_limit_seconds: float
) -> int | None:
    """The child's return code, ``None`` if it had to be ended."""
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": str(_SOURCE_ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        # Each thread of the linear algebra library would reserve address space.
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=answer,
        stderr=complaints,
        cwd="/",
        env=environment,
        start_new_session=True,
    ) as child:
        try:
            return child.wait(timeout=time_limit_seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            return None


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(LARGEST_ANSWER_BYTES + 1)


def _result(answer: bytes, return_code: int, complaints: bytes) -> TracedNetwork:
    document = _parse(answer)
    if return_code == 0 and "network" in document:
        try:
            return parse_traced_networks(document["network"]).networks[0]
        except FixtureError as error:
            raise UploadError(
                f"The network cannot be described: it {error}.", code="bad_network"
            ) from error
    if "message" in document and "code" in document:
        error_class = OnnxError if document.get("kind") == UploadKind.ONNX else UploadError
        raise error_class(str(document["message"])[:4000], code=str(document["code"])[:40])
    last_line = complaints.decode("utf-8", "replace").strip().splitlines()[-1:]
    logger.warning("Reading an upload ended with %s: %s", return_code, "".join(last_line)[:500])
    raise UploadError(
        "The file cannot be read: it broke its reader or needs more memory than is allowed.",
        code="unreadable",
    )


def _parse(answer: bytes) -> dict[str, Any]:
    if len(answer) > LARGEST_ANSWER_BYTES:
        return {}
    try:
        document = json.loads(answer)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
