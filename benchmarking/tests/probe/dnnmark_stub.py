"""Stands in for a built DNNMark tree and nvidia-smi: prints the recorded formats, errors included.

``build_tree(root)`` makes a folder that a machine's DNNMark root may name; the programs in it are
real executables that read the configuration as DNNMark does (an unknown key ends them, the fork's
programs consume the file) and whose times are made up: ``layer_ms`` gives them, every tenth
iteration takes twice as long. Put ``root/bin`` first on PATH for the nvidia-smi.

A file ``behaviour`` in the root, or the environment variable ``DNNMARK_STUB``, makes them
misbehave; each word is one of

    out_of_memory:64     batch size 64 and above do not fit (CUDA Error, exit code 1)
    not_supported:8      cuDNN does not support batch size 8 (CUDNN Error, exit code 1)
    device_lost          no CUDA-capable device is detected
    crash:16             ends by SIGSEGV before it times batch size 16
    cut:16               ends within the table of batch size 16, with exit code 0
    garbage              prints bytes that are no text
    nan                  prints nan for a time
    negative             prints a time below zero
    wrong_sum            prints a sum that its lines do not make
    endless              prints without an end
    hang:16              waits for ever before batch size 16, deaf to SIGTERM as a kernel is
    slow:0.2             takes so many seconds for each batch size

Run by hand:  python dnnmark_stub.py ROOT [fork|upstream] [GPU name]
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

# The programs are named as DNNMark's are.
PROGRAMS = {
    "fork": ("test_fwd_conv_multibs", "test_bwd_conv_multibs"),
    "upstream": ("test_fwd_conv", "test_bwd_conv"),
}
COMMON_KEYS = (
    "run_mode name n c h w previous_layer conv_mode propagation num_output kernel_size pad stride "
    "kernel_size_h kernel_size_w pad_h pad_w stride_h stride_w conv_fwd_pref conv_bwd_filter_pref "
    "conv_bwd_data_pref algo"
).split()
KEYS = {"fork": {*COMMON_KEYS, "algofwd", "algod", "workspace_size"}, "upstream": {*COMMON_KEYS}}
OPERATIONS = {"fwd": ("ConvFwd",), "bwd": ("ConvBwdFilter", "ConvBwdData")}
GPU_STATE = "470.57.02, 1590, 5000, 1590, 41, 60.1, 70.0, 0x0000000000000000, Enabled, [N/A]"
FACTORS = {"ConvFwd": 1.0, "ConvBwdFilter": 1.25, "ConvBwdData": 1.5}


def build_tree(root: Path, flavour: str = "fork", gpu_name: str = "Tesla T4") -> Path:
    """Make the tree and return its root."""
    for name in PROGRAMS[flavour]:
        direction = name.split("_")[1]
        _write_program(
            root / "build" / "benchmarks" / name / f"dnnmark_{name}",
            f'exec "{sys.executable}" "{Path(__file__).resolve()}" --as {flavour} {direction} '
            f'"{root}" "$@"',
        )
    _write_program(
        root / "bin" / "nvidia-smi",
        f'case "$*" in *query-gpu=name*) echo "{gpu_name}, 15360";; *) echo "{GPU_STATE}";; esac',
    )
    return root


def layer_ms(configured: dict[str, str], batch_size: int, operation: str) -> float:
    """The made-up time of an iteration: a thousandth of a millisecond per input element."""
    elements = int(configured["c"]) * int(configured["h"]) * int(configured["w"])
    return elements * batch_size * FACTORS[operation] / 1e6


def _write_program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


class Stub:
    """One run of one program."""

    def __init__(self, flavour: str, direction: str, root: Path, arguments: list[str]) -> None:
        self.flavour = flavour
        self.direction = direction
        words = os.environ.get("DNNMARK_STUB", "")
        if (root / "behaviour").exists():
            words += " " + (root / "behaviour").read_text(encoding="utf-8")
        self.behaviour = dict((word + ":").split(":")[:2] for word in words.split())
        self.config = Path(arguments[arguments.index("-config") + 1])
        self.iterations = 1
        if flavour == "fork":
            self.iterations = int(arguments[arguments.index("--iterations") + 1])

    def run(self) -> int:
        configured = self.read_configuration()
        if configured is None:
            return -signal.SIGABRT
        sizes = [int(part) for part in configured["n"].split(",")]
        self.say("DNNMark suites version 2.1: Start...")
        for size in sizes:
            if self.flavour == "fork":
                self.say(f"Using MBS {size}")
            exit_code = self.misbehave(size)
            if exit_code is not None:
                return exit_code
            self.time_size(configured, size)
        return 0

    def read_configuration(self) -> dict[str, str] | None:
        lines = self.config.read_text(encoding="utf-8").splitlines()
        if self.flavour == "fork":
            # As the real one does: moved away, and written anew for each batch size.
            self.config.rename(self.config.with_name("conv_tmp.tmp"))
        configured = dict(line.split("=", 1) for line in lines if "=" in line)
        unknown = set(configured) - KEYS[self.flavour]
        if unknown or any(line.startswith("propagation") for line in lines):
            key = min(unknown or {"propagation"})
            self.log("F", f"{key}: Keywords not exists")
            return None
        return configured

    def misbehave(self, size: int) -> int | None:
        behaviour = self.behaviour
        if "slow" in behaviour:
            time.sleep(float(behaviour["slow"]))
        if "device_lost" in behaviour:
            self.say("CUDA Error at /DNNMark/core/include/dnn_utility.h51")
            self.say("no CUDA-capable device is detected")
            return 1
        if size >= int(behaviour.get("out_of_memory", size + 1)):
            self.say("CUDA Error at /DNNMark/core/include/data_manager.h63")
            self.say("out of memory")
            return 1
        if size == int(behaviour.get("not_supported", 0)):
            self.say(
                "CUDNN Error at /DNNMark/core/include/dnn_wrapper.h112CUDNN_STATUS_NOT_SUPPORTED"
            )
            return 1
        if size == int(behaviour.get("crash", 0)):
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGSEGV)
        if size == int(behaviour.get("hang", 0)):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            sys.stdout.flush()
            time.sleep(3600)
        if "garbage" in behaviour:
            sys.stdout.flush()
            sys.stdout.buffer.write(b"\xff\xfe\x00 garbage \x80\n")
        while "endless" in behaviour:
            self.say("x" * 4096)
        return None

    def time_size(self, configured: dict[str, str], size: int) -> None:
        total_ms = 0.0
        for iteration in range(self.iterations):
            for operation in OPERATIONS[self.direction]:
                milliseconds = layer_ms(configured, size, operation)
                if self.iterations > 1 and iteration % 10 == 0:
                    milliseconds *= 2
                total_ms += milliseconds
                self.say_time(operation, size, milliseconds)
                if size == int(self.behaviour.get("cut", 0)):
                    sys.stdout.flush()
                    sys.exit(0)
        if self.flavour == "fork":
            if "wrong_sum" in self.behaviour:
                total_ms *= 1.5
            self.say(f"n={size} {self.direction.upper()} time(ms): {total_ms:f}")

    def say_time(self, operation: str, size: int, milliseconds: float) -> None:
        text = f"{milliseconds:.6e}" if milliseconds < 0.1 else f"{milliseconds:.6f}"
        if "nan" in self.behaviour:
            text = "nan"
        if "negative" in self.behaviour:
            text = "-" + text
        if self.flavour == "fork":
            self.say(f"n={size} Operation {operation}_0: GPU time {text}ms, CPU time 0.011000ms")
        else:
            self.log("I", f"{operation}_0: {text}ms")

    @staticmethod
    def say(line: str) -> None:
        print(line)

    @staticmethod
    def log(severity: str, line: str) -> None:
        print(f"{severity}0102 03:04:05.678901 12345 timer.h:98] {line}", file=sys.stderr)


def main() -> int:
    if sys.argv[1] != "--as":
        build_tree(Path(sys.argv[1]).resolve(), *sys.argv[2:])
        return 0
    _, _, flavour, direction, root, *arguments = sys.argv
    exit_code = Stub(flavour, direction, Path(root), arguments).run()
    sys.stdout.flush()
    if exit_code < 0:
        os.kill(os.getpid(), -exit_code)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
