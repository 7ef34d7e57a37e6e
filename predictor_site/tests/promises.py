"""Which tests stand for which promise: R1 to R26 of benchmark jobs, U1 to U12 of the pages.

A test stands for the promises that its name begins with, as ``test_r1_r22_...`` does for two.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPS = ("predictor_site", "predictions", "regression", "benchmarking")
PROMISES = (*(f"R{number}" for number in range(1, 27)), *(f"U{number}" for number in range(1, 13)))


def promises_in_name(name: str) -> list[str]:
    """The promises that a test's name begins with."""
    match = re.match(r"test((?:_[ru]\d+)+)_", name)
    return [word.upper() for word in match.group(1)[1:].split("_")] if match else []


def files_of_promises() -> dict[str, Counter[str]]:
    """For each promise the test files that name it, with how many tests do."""
    found: dict[str, Counter[str]] = {promise: Counter() for promise in PROMISES}
    for app in APPS:
        for path in sorted((ROOT / app).glob("tests/**/test_*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    for promise in promises_in_name(node.name):
                        found.setdefault(promise, Counter())[str(path.relative_to(ROOT))] += 1
    return found


def report_lines() -> list[str]:
    """A line for each promise: how many tests stand for it, and where they are."""
    lines = []
    for promise, files in files_of_promises().items():
        places = ", ".join(f"{name} ({count})" for name, count in files.items())
        lines.append(f"{promise:<4} {files.total():>3} tests: {places}")
    return lines


if __name__ == "__main__":
    print("\n".join(report_lines()))
