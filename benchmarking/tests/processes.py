"""Ending what a test started and left running."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def end_started_probes(folder: Path) -> None:
    """Kill the process groups of the jobs whose folders lie in ``folder/runs``."""
    for process in folder.glob("runs/*/process"):
        pid = process.read_text().split()[0]
        if pid.isdecimal():
            try:
                os.killpg(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                continue
