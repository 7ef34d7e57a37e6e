"""Stands in for the probe where a test needs its process and not its timings; needs no torch.

Environment variables play with it: ``FAKE_PROBE_HOLD_AFTER`` makes it wait before that piece of
work until a file ``go`` lies in its folder, ``FAKE_PROBE_REFUSAL`` makes it refuse its plan.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

WAIT_SECONDS = 120


def emit(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def result(item: dict[str, Any]) -> dict[str, Any]:
    line: dict[str, Any] = {"type": item["kind"], **item}
    if item["kind"] == "convolution":
        line["samples_ms"] = {name: [1.0, 1.5] for name in line.pop("passes")}
    else:
        line |= {"samples_ms": [10.0, 12.0], "peak_memory_bytes": None}
    return line


def main() -> int:
    refusal = os.environ.get("FAKE_PROBE_REFUSAL")
    if refusal:
        print(f"probe: {refusal}", file=sys.stderr)
        return 2
    asked_to_stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked_to_stop.append(number))
    plan = json.load(sys.stdin)
    gpu = {"name": "Tesla T4"} if plan["device"] == "cuda" else None
    emit(
        {
            "type": "environment",
            "schema": 1,
            "run_id": str(uuid.uuid4()),
            "started_at": "2026-01-02T03:04:05+00:00",
            "machine": plan["machine"],
            "stack": {
                **plan["stack"],
                "engine": "torch",
                "framework_version": "2.14.1",
                "cuda_version": "",
                "cudnn_version": "",
            },
            "cpu": {"model": "Test CPU", "signature": "6-1-1", "memory_mib": 8192},
            "gpu": gpu,
        }
    )
    hold_after = int(os.environ.get("FAKE_PROBE_HOLD_AFTER", "-1"))
    end = time.monotonic() + WAIT_SECONDS
    completed = 0
    for number, item in enumerate(plan["work"]):
        while number == hold_after and not asked_to_stop and not Path("go").exists():
            if time.monotonic() > end:
                return 1
            time.sleep(0.005)
        if asked_to_stop:
            break
        emit(result(item))
        completed += 1
    emit(
        {
            "type": "done",
            "completed": completed,
            "failed": 0,
            "left": len(plan["work"]) - completed,
            "stopped_by": "signal" if asked_to_stop else "end_of_plan",
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
