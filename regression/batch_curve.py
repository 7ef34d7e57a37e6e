"""Iteration time over batch size: between known sizes, beyond them, and at regressed ones.

Pure functions of equally long arrays of batch sizes (ascending) and milliseconds; and the errors
that each of them makes on measured curves of which points are held back.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.optimize import nnls

from regression.features import FloatArray
from regression.intervals import SMALLEST_STEP

LARGEST_FIXED_SHARE = 0.95


def interpolate(sizes: FloatArray, milliseconds: FloatArray, wanted: FloatArray) -> FloatArray:
    """Straight lines between neighbours; ``wanted`` lies within the known sizes."""
    return np.interp(wanted, sizes, milliseconds)


def extrapolate(sizes: FloatArray, milliseconds: FloatArray, wanted: FloatArray) -> FloatArray:
    """``fixed + (t - fixed) * b / b_known`` from the nearest known end of the curve.

    The fixed part is that of the best line through the known points in relative error, and
    zero where one point is known. The slope is not that line's: past the last point the time per
    example is that of the last, since kernels change along the curve.
    """
    fixed_ms = _fixed_ms(sizes, milliseconds)
    end = np.where(wanted > sizes[-1], len(sizes) - 1, 0)
    return np.asarray(fixed_ms + (milliseconds[end] - fixed_ms) * wanted / sizes[end])


def anchor(
    sizes: FloatArray,
    regressed_ms: FloatArray,
    measured_sizes: FloatArray,
    measured_ms: FloatArray,
    regressed_at_measured_ms: FloatArray,
) -> FloatArray:
    """Regressed times times the ratio to the measured ones of the same curve.

    The ratio is a straight line in the logarithm of the batch size between measured sizes and
    constant beyond, so that changing from one source to the other makes no jump of its own.
    """
    ratios = np.log(measured_ms / regressed_at_measured_ms)
    return np.asarray(
        regressed_ms * np.exp(np.interp(np.log(sizes), np.log(measured_sizes), ratios))
    )


def interpolation_errors(sizes: FloatArray, milliseconds: FloatArray) -> list[float]:
    """Log errors of each inner point, interpolated between its neighbours."""
    errors = []
    for position in range(1, len(sizes) - 1):
        ends = [position - 1, position + 1]
        guess = interpolate(sizes[ends], milliseconds[ends], sizes[position : position + 1])[0]
        errors.append(float(np.log(milliseconds[position] / guess)))
    return errors


def extrapolation_errors(sizes: FloatArray, milliseconds: FloatArray) -> list[float]:
    """Log errors per doubling of every larger size, from two or more smaller ones."""
    errors: list[float] = []
    for known in range(2, len(sizes)):
        beyond = sizes[known:]
        guesses = extrapolate(sizes[:known], milliseconds[:known], beyond)
        doublings = np.maximum(np.log2(beyond / sizes[known - 1]), SMALLEST_STEP)
        errors.extend(float(e) for e in np.log(milliseconds[known:] / guesses) / doublings)
    return errors


def anchoring_errors(
    sizes: FloatArray, milliseconds: FloatArray, regressed_ms: FloatArray
) -> list[float]:
    """Log errors of each point, regressed and anchored at all the others of its curve."""
    if len(sizes) < 2:
        return []
    errors = []
    for position in range(len(sizes)):
        others = np.arange(len(sizes)) != position
        guess = anchor(
            sizes[~others],
            regressed_ms[~others],
            sizes[others],
            milliseconds[others],
            regressed_ms[others],
        )[0]
        errors.append(float(np.log(milliseconds[position] / guess)))
    return errors


def run_errors(times_by_run: Mapping[str, float]) -> list[float]:
    """Log errors of each process's time against their median, which is what gets shown."""
    values = np.array(list(times_by_run.values()), dtype=float)
    if len(values) < 2:
        return []
    return [float(error) for error in np.log(values / np.median(values))]


def _fixed_ms(sizes: FloatArray, milliseconds: FloatArray) -> float:
    if len(sizes) < 2:
        return 0.0
    design = np.column_stack([np.ones(len(sizes)), sizes]) / milliseconds[:, None]
    fixed_ms = float(nnls(design, np.ones(len(sizes)))[0][0])
    return min(fixed_ms, LARGEST_FIXED_SHARE * float(milliseconds.min()))
