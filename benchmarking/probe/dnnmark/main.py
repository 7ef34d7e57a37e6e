"""The program that is sent to the measured machine.

    python probe.py < plan.json > results.jsonl

It reads the plan that ``plan.py`` describes and prints the lines that ``results.py`` reads, as the
probe that uses torch does: the environment first, then what was timed, ``done`` last. The plan
names the root folder of the built DNNMark tree.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any

from benchmarking.probe.dnnmark.environment import environment
from benchmarking.probe.dnnmark.runner import DnnmarkProbe
from benchmarking.probe.dnnmark.tree import Tree, find_tree
from benchmarking.probe.probe import PlanError, check_plan, gpu_state, load_average, one_line


def main() -> int:
    """Carry out the plan on standard input; the exit code is 2 where that cannot be done here."""
    try:
        plan = json.load(sys.stdin)
        check_plan(plan)
        tree = _tree_of(plan)
        first_line = environment(plan, tree)
    except (PlanError, ValueError) as error:
        print(f"probe: {one_line(error)}", file=sys.stderr)
        return 2

    def emit(line: dict[str, Any]) -> None:
        line["elapsed_seconds"] = round(time.monotonic() - started, 3)
        sys.stdout.write(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")
        sys.stdout.flush()

    started = time.monotonic()
    probe = DnnmarkProbe(plan, tree, emit, environment=first_line)
    signal.signal(signal.SIGTERM, lambda *_: probe.stop("signal"))
    signal.signal(signal.SIGINT, lambda *_: probe.stop("signal"))
    emit(first_line)
    done = probe.run()
    emit({**done, "load_average": load_average(), "gpu_state": gpu_state()})
    return 0


def _tree_of(plan: dict[str, Any]) -> Tree:
    if not plan["device"].startswith("cuda"):
        raise PlanError("DNNMark measures GPUs, the plan asks for a CPU")
    if plan["stack"]["precision"] != "fp32":
        raise PlanError("DNNMark measures in fp32 only")
    if plan["stack"]["memory_format"] != "contiguous":
        raise PlanError("DNNMark measures contiguous tensors only")
    return find_tree(plan.get("dnnmark", {}).get("root", ""))
