"""What this computer would measure with, asked of the probe itself."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarking.probe import PROBE_PATH
from benchmarking.probe.dnnmark.program import dnnmark_program
from benchmarking.probe.results import EnvironmentLine, ResultError, parse_line
from benchmarking.specs import Engine

TIMEOUT_SECONDS = 180


class ProbeRefusedError(Exception):
    """The probe cannot run here; the message is its own sentence."""


def read_local_environment(python: str, plan: dict[str, Any]) -> EnvironmentLine:
    """The environment line that the probe prints for ``plan`` when there is no work in it.

    Raises ``ProbeRefusedError`` if the interpreter is not there, has no torch (or there is no
    DNNMark, where the plan is one for it), or cannot do what the plan asks for.
    """
    plan_text = json.dumps({**plan, "work": []}).encode()
    if plan["stack"]["engine"] != Engine.DNNMARK:
        return _run([python, str(PROBE_PATH)], plan_text)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / PROBE_PATH.name
        program.write_bytes(dnnmark_program())
        return _run([python, str(program)], plan_text)


def _run(command: Sequence[str], plan: bytes) -> EnvironmentLine:
    try:
        result = subprocess.run(
            command, input=plan, capture_output=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProbeRefusedError(f"the probe cannot be started: {error}") from error
    if result.returncode != 0:
        errors = result.stderr.decode(errors="replace").strip().splitlines()
        raise ProbeRefusedError(
            errors[-1].removeprefix("probe: ") if errors else f"exit code {result.returncode}"
        )
    try:
        line = parse_line(result.stdout.split(b"\n", 1)[0])
    except ResultError as error:
        raise ProbeRefusedError(f"the probe printed something else: {error.reason}") from error
    if not isinstance(line, EnvironmentLine):
        raise ProbeRefusedError("the probe did not begin with its environment")
    return line
