"""A built DNNMark tree: which of the two versions it is, and how its programs are called."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from benchmarking.probe.dnnmark.config import FORK, UPSTREAM
from benchmarking.probe.probe import PlanError, read_command

FORWARD = "fwd"
BACKWARD = "bwd"
DIRECTIONS = (FORWARD, BACKWARD)

# Of the maximum SM clock, before each batch size: ten short convolutions are over before an idle
# GPU has raised its clock. Cards with a low power limit do not come much higher than this.
WARMUP_PERCENT = 70

_PROGRAMS = {FORK: "test_{}_conv_multibs", UPSTREAM: "test_{}_conv"}
_LINKED_FILE = re.compile(r"=> (/\S+)")


@dataclass(frozen=True)
class Tree:
    """The root folder of a built tree, and the version of DNNMark in it."""

    root: str
    flavour: str

    def program(self, direction: str) -> str:
        """The path of the program for a direction."""
        name = _PROGRAMS[self.flavour].format(direction)
        return str(Path(self.root) / "build" / "benchmarks" / name / ("dnnmark_" + name))

    def command(
        self, direction: str, config_file: str, *, iterations: int, warms_up: bool
    ) -> list[str]:
        """The command that times one layer; upstream has no choice but one iteration."""
        program = self.program(direction)
        if self.flavour == UPSTREAM:
            return [program, "-config", config_file, "-debuginfo", "1"]
        return [
            program,
            "-config",
            config_file,
            "--warmup",
            str(WARMUP_PERCENT if warms_up else 0),
            "--iterations",
            str(iterations),
            "--detailedtime",
            "--debuginfo",
            "0",
        ]


def find_tree(root: str) -> Tree:
    """The tree under ``root``; raises ``PlanError`` where none is built there."""
    if not root:
        raise PlanError("the plan names no DNNMark root; the machine's setting DNNMark root is it")
    for flavour in (FORK, UPSTREAM):
        tree = Tree(root, flavour)
        if all(os.access(tree.program(direction), os.X_OK) for direction in DIRECTIONS):
            return tree
    raise PlanError(
        f"no built DNNMark under {root}: neither {Tree(root, FORK).program(FORWARD)} "
        f"nor {Tree(root, UPSTREAM).program(FORWARD)} can be run"
    )


def linked_versions(tree: Tree) -> tuple[str, str]:
    """Versions of CUDA and cuDNN that the program is linked to, empty where unknown.

    Both are written as PyTorch writes its own: ``11.3`` and ``8201``.
    """
    listing = read_command("ldd", tree.program(FORWARD))
    names = "\n".join(Path(path).resolve().name for path in _LINKED_FILE.findall(listing))
    cuda = re.search(r"^libcudart\.so\.(\d+)\.(\d+)", names, re.MULTILINE)
    cudnn = re.search(r"^libcudnn\.so\.(\d+\.\d+\.\d+)", names, re.MULTILINE)
    return (
        f"{cuda.group(1)}.{cuda.group(2)}" if cuda else "",
        cudnn_number(cudnn.group(1)) if cudnn else "",
    )


def cudnn_number(version: str) -> str:
    """``8.2.1`` as cuDNN counts it, ``8201``; empty where ``version`` is none."""
    match = re.match(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?!\d)", version)
    if match is None:
        return ""
    major, minor, patch = (int(part) for part in match.groups())
    return str(major * (10_000 if major >= 9 else 1_000) + minor * 100 + patch)
