"""A stand-in for regression: an answer for every question, made of simple arithmetic.

The shape is that of ``regression.iteration.IterationCurve``, so that a test of pages and rows
needs no timings and no XGBoost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarking.models import Architecture
from benchmarking.specs import Optimizer, Precision
from predictions.curves import Place


@dataclass(frozen=True)
class FakeCurve:
    """The columns and scalars of a real curve."""

    batch_sizes: Sequence[int]
    iteration_ms: Sequence[float | None]
    low_ms: Sequence[float | None]
    high_ms: Sequence[float | None]
    sources: Sequence[str | None]
    measured_share: Sequence[float | None]
    memory_mib: Sequence[float | None]
    fits: Sequence[str]
    bound_by: Sequence[str | None]
    notes: Sequence[str | None]
    stack: str | None
    model_version: str
    largest_batch: int | None


def fake_curve(
    architecture: Architecture,
    place: Place,
    precision: Precision,
    optimizer: Optimizer,
    batch_sizes: Sequence[int],
) -> FakeCurve:
    """10 ms plus the work over half the device's peak; +-10 % measured, +-30 % estimated.

    CPUs are measured up to batch 16 and interpolated beyond; GPUs are estimated, and from batch
    160 on they take 40 % longer per example.
    """
    device = place.device
    is_cpu = device.kind == "cpu"
    peak = (device.fp32_tflops or 0.2) * 0.5e12 * (2 if precision is Precision.AMP else 1)
    ms_per_example = 6 * architecture.multiply_adds / peak * 1000
    usable = device.usable_memory_mib
    memory = [
        600 + (architecture.parameters * 12 + size * architecture.saved_bytes_per_example) / 2**20
        for size in batch_sizes
    ]
    trainable = [size >= architecture.minimum_batch_size for size in batch_sizes]
    times = [
        10 + size * ms_per_example * (1.4 if size >= 160 and not is_cpu else 1.0)
        for size in batch_sizes
    ]
    sources = [
        "estimated" if not is_cpu else "measured" if size <= 16 else "interpolated"
        for size in batch_sizes
    ]
    width = [0.1 if is_cpu else 0.3 for _ in batch_sizes]
    fits = [
        "unknown" if usable is None else "yes" if needed <= usable else "no" for needed in memory
    ]
    return FakeCurve(
        batch_sizes=batch_sizes,
        iteration_ms=[ms if can else None for ms, can in zip(times, trainable)],
        low_ms=[ms * (1 - w) if can else None for ms, w, can in zip(times, width, trainable)],
        high_ms=[ms * (1 + w) if can else None for ms, w, can in zip(times, width, trainable)],
        sources=[source if can else None for source, can in zip(sources, trainable)],
        measured_share=[1.0 if is_cpu else 0.0 for _ in batch_sizes],
        memory_mib=memory,
        fits=fits,
        bound_by=["host" if size <= 2 and not is_cpu else "device" for size in batch_sizes],
        notes=[None if can else "BatchNorm cannot train on a single value" for can in trainable],
        stack="torch 2.14.1 · fp32 · 1 thread" if is_cpu else None,
        model_version="fake-1",
        largest_batch=max((s for s, fit in zip(batch_sizes, fits) if fit == "yes"), default=None)
        if usable
        else None,
    )
