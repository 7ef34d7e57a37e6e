"""Processes of tests that must not outlive them."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """To be run in a new child: Linux ends it when a killed test run ends nothing any more."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_started_probes(folder: Path) -> None:
    """Kill the process groups of the jobs whose folders lie in ``folder/runs``."""
    for process in folder.glob("runs/*/process"):
        pid = process.read_text().split()[0]
        if pid.isdecimal():
            try:
                os.killpg(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                continue
