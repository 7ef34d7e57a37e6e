"""What DNNMark's timings are taken on and with, as the first line says it."""

from __future__ import annotations

import datetime
import hashlib
import platform
import sys
import uuid
from pathlib import Path
from typing import Any

from benchmarking.probe.dnnmark.tree import DIRECTIONS, Tree, linked_versions
from benchmarking.probe.probe import (
    SCHEMA,
    PlanError,
    cpu_record,
    gpu_state,
    load_average,
    read_command,
)


def gpu_of_machine() -> dict[str, Any]:
    """Name, memory and state of the first GPU; raises ``PlanError`` where there is none."""
    answer = read_command(
        "nvidia-smi", "--id=0", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"
    )
    name, _, memory_text = answer.partition(",")
    if not name.strip():
        raise PlanError("the plan asks for a CUDA device, and nvidia-smi finds none here")
    memory_text = memory_text.strip()
    return {
        "name": name.strip(),
        "memory_mib": int(memory_text) if memory_text.isdecimal() else None,
        "state": gpu_state(),
    }


def environment(plan: dict[str, Any], tree: Tree) -> dict[str, Any]:
    """The environment line; raises ``PlanError`` where there is no GPU."""
    cuda_version, cudnn_version = linked_versions(tree)
    return {
        "type": "environment",
        "schema": SCHEMA,
        "run_id": str(uuid.uuid4()),
        "started_at": datetime.datetime.now(datetime.timezone.utc).isoformat(),
        "probe_sha256": _sha256(sys.argv[0]),
        "machine": plan.get("machine", ""),
        "stack": {
            "engine": "dnnmark",
            "framework_version": tree.flavour,
            "precision": plan["stack"]["precision"],
            "cuda_version": cuda_version,
            "cudnn_version": cudnn_version,
            "memory_format": plan["stack"]["memory_format"],
            "cudnn_benchmark": plan["stack"]["cudnn_benchmark"],
            "threads": 1,
        },
        "dnnmark": {
            "root": tree.root,
            "commit": read_command("git", "-C", tree.root, "rev-parse", "HEAD"),
            "programs_sha256": [_sha256(tree.program(direction)) for direction in DIRECTIONS],
        },
        "python_version": platform.python_version(),
        "os": platform.platform(),
        "cpu": cpu_record(),
        "load_average": load_average(),
        "sampling": plan["sampling"],
        "gpu": gpu_of_machine(),
    }


def _sha256(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""
