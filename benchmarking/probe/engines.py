"""What each engine can time."""

from __future__ import annotations

from dataclasses import asdict

from benchmarking.probe.dnnmark.config import unsupported_reason
from benchmarking.specs import ConvolutionSpec, Engine


def can_time_layer(engine: Engine, layer: ConvolutionSpec) -> bool:
    """Whether the engine has such convolutions."""
    return engine is not Engine.DNNMARK or not unsupported_reason(asdict(layer))


def times_iterations(engine: Engine) -> bool:
    """Whether the engine can time whole training iterations."""
    return engine is not Engine.DNNMARK
