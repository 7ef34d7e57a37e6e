"""Lines as a probe prints them, for the tests of what reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarking.specs import ConvolutionSpec
from benchmarking.tests.factories import MIDDLE_LAYER, environment_line

__all__ = [
    "as_bytes",
    "convolution_line",
    "done_line",
    "environment_line",
    "error_line",
    "iteration_line",
]


def as_bytes(*lines: dict[str, Any]) -> bytes:
    """The lines as one file."""
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def convolution_line(
    *, layer: ConvolutionSpec = MIDDLE_LAYER, samples_ms: Any = None, **values: Any
) -> dict[str, Any]:
    """A timed convolution layer."""
    return {
        "type": "convolution",
        "layer": asdict(layer),
        "batch_size": 4,
        "round": 1,
        "samples_ms": {"forward": [1.0, 1.5, 9.0]} if samples_ms is None else samples_ms,
        "elapsed_seconds": 1.0,
        **values,
    }


def iteration_line(
    *, architecture: str = "tinynet", samples_ms: Sequence[Any] = (10.0, 11.0), **values: Any
) -> dict[str, Any]:
    """A timed training iteration."""
    return {
        "type": "iteration",
        "architecture": architecture,
        "image_size": 32,
        "auxiliary_heads": False,
        "optimizer": "sgd",
        "batch_size": 4,
        "round": 1,
        "samples_ms": list(samples_ms),
        "peak_memory_bytes": None,
        **values,
    }


def error_line(*, work: dict[str, Any] | None = None, **values: Any) -> dict[str, Any]:
    """A layer that did not fit into the memory."""
    of_layer = {"kind": "convolution", "layer": asdict(MIDDLE_LAYER), "batch_size": 512, "round": 1}
    return {
        "type": "error",
        "work": work or {**of_layer, "passes": ["forward"]},
        "error": "out_of_memory",
        "message": "CUDA out of memory",
        **values,
    }


def done_line(**values: Any) -> dict[str, Any]:
    """The end of a run."""
    return {
        "type": "done",
        "completed": 2,
        "failed": 0,
        "left": 0,
        "stopped_by": "end_of_plan",
        "seconds": 3.0,
        **values,
    }
