"""Simple predictors of published iterations that the estimator has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarking.specs import Precision
from regression.layer_features import FloatArray, Rates
from regression.step_training import StepExample


def baseline_errors(examples: Sequence[StepExample]) -> dict[str, FloatArray]:
    """Log errors of three simple predictors, NaN where one has nothing to go by.

    ``flops_over_peak``: proportional to multiply-adds over the peak rate, with the median factor
    of the other networks in that precision. ``linear_in_batch``: a line between the smallest and
    largest batch size measured of the same curve. ``device_ratio``: the time on another device
    times the median ratio of the two over other networks.
    """
    return {
        "flops_over_peak": _flops_over_peak(examples),
        "linear_in_batch": _linear_in_batch(examples),
        "device_ratio": _device_ratio(examples),
    }


def _flops_over_peak(examples: Sequence[StepExample]) -> FloatArray:
    ratio = np.array([np.log(each.milliseconds / _ideal_ms(each)) for each in examples])
    errors = np.full(len(examples), np.nan)
    for precision in Precision:
        rows = [i for i, each in enumerate(examples) if each.context.precision is precision]
        names = np.array([examples[i].network for i in rows])
        for i in rows:
            others = np.array(rows)[names != examples[i].network]
            if len(others):
                errors[i] = np.median(ratio[others]) - ratio[i]
    return errors


def _ideal_ms(example: StepExample) -> float:
    terms = example.terms
    per_call = terms.layers.multiply_adds
    total = float((terms.pass_counts.sum(axis=1) * per_call).sum() + terms.matrix_multiply_adds)
    peak = Rates.of(example.device, example.context.precision).peak_tflops
    return 2e-9 * total * example.batch_size / peak


def _curve(example: StepExample) -> tuple[Any, ...]:
    context = example.context
    return (
        example.network,
        id(example.terms),
        example.device.slug,
        context.precision,
        context.host,
    )


def _linear_in_batch(examples: Sequence[StepExample]) -> FloatArray:
    curves: dict[tuple[Any, ...], list[int]] = {}
    for i, example in enumerate(examples):
        curves.setdefault(_curve(example), []).append(i)
    errors = np.full(len(examples), np.nan)
    for rows in curves.values():
        if len(rows) < 3:
            continue
        rows.sort(key=lambda i: examples[i].batch_size)
        sizes = np.array([examples[i].batch_size for i in rows], dtype=float)
        times = np.array([examples[i].milliseconds for i in rows])
        line = np.interp(sizes, sizes[[0, -1]], times[[0, -1]])
        errors[rows[1:-1]] = np.log(line / times)[1:-1]
    return errors


def _device_ratio(examples: Sequence[StepExample]) -> FloatArray:
    """From the device that shares most points with this one."""
    points: dict[tuple[str, Precision, str], dict[tuple[Any, ...], tuple[float, str]]] = {}
    for example in examples:
        place = (example.device.slug, example.context.precision, example.context.host)
        point = (example.network, id(example.terms), example.batch_size)
        points.setdefault(place, {})[point] = (example.milliseconds, example.network)
    errors = np.full(len(examples), np.nan)
    for i, example in enumerate(examples):
        place = (example.device.slug, example.context.precision, example.context.host)
        point = (example.network, id(example.terms), example.batch_size)
        own = points[place]
        candidates = [
            (len(own.keys() & other.keys()), name)
            for name, other in points.items()
            if name[0] != place[0] and point in other
        ]
        if not candidates:
            continue
        other = points[max(candidates, key=lambda each: (each[0], str(each[1])))[1]]
        shared = [p for p in own.keys() & other.keys() if own[p][1] != example.network]
        if len(shared) < 3:
            continue
        ratio = np.median([own[p][0] / other[p][0] for p in shared])
        errors[i] = np.log(ratio * other[point][0] / example.milliseconds)
    return errors
