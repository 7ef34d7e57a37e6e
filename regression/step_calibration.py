"""Iteration time as a sum of physical terms, with coefficients fitted to published iterations.

For one iteration on a GPU::

    device = conv factor x (convolutions + matrix products + grouped convolutions)
             + memory factor x (bytes over bandwidth by kind + depthwise + optimizer)
             + kernels x launch
    host   = host factor x (operations and parameter tensors x dispatch cost)
    time   = (device^4 + host^4)^(1/4) + copy of the batch + what a stack adds to every step

Half precision has a compute and a memory factor of its own, which all chips share. Every
coefficient and factor is positive: the logarithms are fitted with a soft L1 loss on the
logarithm of time, each with a normal prior. Factors belong to a chip and stack and have mean 1,
so that a device nobody measured is one with all factors 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from benchmarking.specs import DeviceSpec, Precision
from regression.layer_features import FloatArray
from regression.smooth_maximum import SMOOTH_MAXIMUM_POWER, smooth_maximum
from regression.step_terms import MEMORY_GROUPS

KERNEL_CLASSES = ("1x1", "3x3", "other")
PASS_NAMES = ("forward", "backward_data", "backward_filter")
CONVOLUTION_TERMS = tuple(
    f"convolution_{name}_{kernel}" for name in PASS_NAMES for kernel in KERNEL_CLASSES
)

TERMS: tuple[str, ...] = (
    *CONVOLUTION_TERMS,
    "grouped",
    "matrix",
    *MEMORY_GROUPS,
    "depthwise_forward",
    "depthwise_backward",
    "optimizer",
    "kernels",
    "host_forward",
    "host_backward",
    "host_views",
    "host_tensors",
    "host_to_device",
    "constant",
)
"""Columns of a term matrix in milliseconds (counts in thousands, so coefficients are in us)."""

CONVOLUTION_COLUMNS = np.array([TERMS.index(term) for term in CONVOLUTION_TERMS])
NARROW_COLUMNS = np.array(
    [TERMS.index(term) for term in ("grouped", "depthwise_forward", "depthwise_backward")]
)
"""Of depthwise and grouped convolutions, which have public timings within iterations only."""

_COMPUTE = frozenset({*CONVOLUTION_TERMS, "grouped", "matrix"})
_MEMORY = frozenset({*MEMORY_GROUPS, "depthwise_forward", "depthwise_backward", "optimizer"})
_HOST = frozenset({"host_forward", "host_backward", "host_views", "host_tensors"})
_BESIDE = frozenset({"host_to_device", "constant"})

_PRIORS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(CONVOLUTION_TERMS, (1.0, 0.15)),
    "grouped:full": (5.0, 0.7),
    "grouped:half": (5.0, 0.7),
    "matrix": (1.5, 0.4),
    "norm": (2.0, 0.3),
    "norm_backward": (2.0, 0.3),
    "pool": (1.5, 0.4),
    "pool_backward": (1.5, 0.4),
    "elementwise": (1.0, 0.2),
    "copy": (1.3, 0.4),
    "bias": (1.0, 0.4),
    "depthwise_forward:tensorflow": (15.0, 0.7),
    "depthwise_backward:tensorflow": (15.0, 0.7),
    "depthwise_forward:full": (3.0, 0.7),
    "depthwise_backward:full": (5.0, 0.7),
    "depthwise_forward:half": (3.0, 0.7),
    "depthwise_backward:half": (5.0, 0.7),
    "optimizer": (1.0, 0.4),
    "kernels": (2.5, 0.4),
    "host_forward": (60.0, 0.5),
    "host_backward": (20.0, 0.5),
    "host_views": (3.0, 0.5),
    "host_tensors": (3.0, 0.7),
    "host_to_device": (1.5, 0.5),
    "constant:profet": (1.5, 0.5),
    "constant:torchvision": (0.5, 0.7),
    "constant:timm": (0.3, 0.7),
    "compute in half precision": (1.0, 0.3),
    "memory in half precision": (1.0, 0.3),
}
_FACTOR_SIGMA = {"compute": 0.15, "memory": 0.2, "host": 0.3}


class Collection(StrEnum):
    """Which publication a timing is from; each has its own framework and habits."""

    PROFET = "profet"
    TORCHVISION = "torchvision"
    TIMM = "timm"


_HOST_TRUST = 0.8
"""Share of the published hosts' factor, in the logarithm, that another host beside a chip keeps."""


def forecast_host(chip: str) -> str:
    """Name of the host that a forecast assumes beside a chip."""
    return f"forecast {chip}"


def forecast_host_factors(
    contexts: Iterable[StepContext], values: Mapping[str, float]
) -> dict[str, float]:
    """Logarithms of the factors of the hosts that forecasts assume, by name.

    Chips come with hosts of their time: the mean of those published beside a chip, shrunk. A
    chip that nobody published has an average host.
    """
    hosts: dict[str, set[str]] = {}
    for context in contexts:
        hosts.setdefault(context.chip, set()).add(f"host {context.host}")
    return {
        f"host {forecast_host(chip)}": _HOST_TRUST * float(np.mean([values[h] for h in names]))
        for chip, names in sorted((chip, sorted(names)) for chip, names in hosts.items())
    }


def chip_of(device: DeviceSpec) -> str:
    """The chip by compute capability and multiprocessors: boards of one chip share factors."""
    return f"{device.compute_capability}/{device.multiprocessors}"


@dataclass(frozen=True, slots=True)
class StepContext:
    """Where an iteration ran: what decides which coefficients and factors apply to it."""

    chip: str
    precision: Precision
    collection: Collection
    host: str

    def coefficient(self, term: str) -> str:
        """Name of the coefficient of a term."""
        width = "half" if self.precision is Precision.AMP else "full"
        if term == "grouped":
            return f"grouped:{width}"
        if term.startswith("depthwise"):
            kernels = "tensorflow" if self.collection is Collection.PROFET else width
            return f"{term}:{kernels}"
        if term == "constant":
            return f"constant:{self.collection.value}"
        return term

    def shared_factor(self, term: str) -> str | None:
        """Name of the factor that all chips share in half precision, if the term has one.

        Half the bytes take more than half the time, and tensor cores fall shorter of their peak.
        """
        if self.precision is not Precision.AMP:
            return None
        if term in _COMPUTE:
            return "compute in half precision"
        return "memory in half precision" if term in _MEMORY else None

    def factor(self, term: str) -> str | None:
        """Name of the factor of a term, if it has one."""
        if term in _COMPUTE:
            return f"compute {self.chip} {self.precision.value}"
        if term in _MEMORY:
            width = "half" if self.precision is Precision.AMP else "full"
            return f"memory {self.chip} {width}"
        return f"host {self.host}" if term in _HOST else None


class StepCalibration:
    """Coefficients and factors of the terms; ``values`` are logarithms by name."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self.values = dict(values)

    def coefficients(self, context: StepContext) -> FloatArray:
        """Coefficient times factor of each of ``TERMS``; unknown factors are 1."""
        return np.exp([self._logarithm(context, term) for term in TERMS])

    def _logarithm(self, context: StepContext, term: str) -> float:
        factors = (context.factor(term), context.shared_factor(term))
        return self.values[context.coefficient(term)] + sum(
            self.values.get(factor, 0.0) for factor in factors if factor
        )

    def parts_ms(
        self, terms: FloatArray, contexts: Sequence[StepContext]
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Milliseconds of device, host and what lies beside them, of each row."""
        coefficients = np.array([self.coefficients(context) for context in contexts])
        return sum_parts(terms * coefficients)

    def predict(self, terms: FloatArray, contexts: Sequence[StepContext]) -> FloatArray:
        """Milliseconds of each row of a term matrix of shape (rows, terms)."""
        device, host, beside = self.parts_ms(terms, contexts)
        return smooth_maximum(host, device) + beside


def _columns(names: frozenset[str]) -> NDArray[np.bool_]:
    return np.array([term in names for term in TERMS])


_IS_DEVICE = _columns(_COMPUTE | _MEMORY | frozenset({"kernels"}))
_IS_HOST = _columns(_HOST)
_IS_BESIDE = _columns(_BESIDE)


def sum_parts(milliseconds: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Device, host and beside totals of terms in milliseconds, summed over the last axis."""
    return (
        milliseconds[..., _IS_DEVICE].sum(axis=-1),
        milliseconds[..., _IS_HOST].sum(axis=-1),
        milliseconds[..., _IS_BESIDE].sum(axis=-1),
    )


def fit_calibration(
    terms: FloatArray,
    contexts: Sequence[StepContext],
    milliseconds: FloatArray,
    weights: FloatArray,
    error_scale: float = 0.1,
    iterations: int = 25,
) -> StepCalibration:
    """Fit by Gauss-Newton steps with damping, from the priors' means; deterministic.

    Parameters
    ----------
    terms : shape (rows, len(TERMS))
    contexts, milliseconds, weights : one per row
    error_scale
        Log error at which the loss turns from quadratic to linear.
    iterations
        Most steps that are tried.
    """
    problem = _Problem(terms, contexts, milliseconds, weights, error_scale)
    point, damping = problem.prior_mean.copy(), 1e-2
    loss = problem.loss(point)
    for _ in range(iterations):
        gradient, curvature = problem.derivatives(point)
        for _ in range(8):
            step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), -gradient)
            trial_loss = problem.loss(point + step)
            if trial_loss < loss:
                break
            damping *= 4.0
        else:
            break
        point, damping = point + step, damping / 4.0
        if loss - trial_loss < 1e-6 * loss:
            break
        loss = trial_loss
    return StepCalibration(dict(zip(problem.names, point.tolist(), strict=True)))


class _Problem:
    """Loss and its derivatives for a fixed set of rows."""

    def __init__(
        self,
        terms: FloatArray,
        contexts: Sequence[StepContext],
        milliseconds: FloatArray,
        weights: FloatArray,
        error_scale: float,
    ) -> None:
        self.terms, self.weights, self.error_scale = terms, weights, error_scale
        self.targets = np.log(milliseconds)
        factors = {context.factor(term) for context in set(contexts) for term in TERMS} - {None}
        self.names = [*_PRIORS, *sorted(factor for factor in factors if factor is not None)]
        position = {name: i for i, name in enumerate(self.names)}
        self.coefficient_index = np.array(
            [[position[context.coefficient(term)] for term in TERMS] for context in contexts]
        )
        absent = len(self.names)
        self.factor_index, self.shared_index = (
            np.array(
                [
                    [position.get(name(context, term) or "", absent) for term in TERMS]
                    for context in contexts
                ]
            )
            for name in (StepContext.factor, StepContext.shared_factor)
        )
        priors = [
            (np.log(_PRIORS[name][0]), _PRIORS[name][1])
            if name in _PRIORS
            else (0.0, _FACTOR_SIGMA[name.split()[0]])
            for name in self.names
        ]
        self.prior_mean = np.array([mean for mean, _ in priors])
        self.prior_precision = np.array([sigma**-2 for _, sigma in priors])

    def _evaluate(self, point: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        padded = np.append(point, 0.0)
        milliseconds = self.terms * np.exp(
            padded[self.coefficient_index] + padded[self.factor_index] + padded[self.shared_index]
        )
        device, host, beside = sum_parts(milliseconds)
        both = smooth_maximum(host, device)
        time = both + beside
        power = SMOOTH_MAXIMUM_POWER - 1.0
        slope = np.zeros_like(milliseconds)
        slope[:, _IS_DEVICE] = ((device / both) ** power)[:, None]
        slope[:, _IS_HOST] = ((host / both) ** power)[:, None]
        slope[:, _IS_BESIDE] = 1.0
        residuals = (np.log(time) - self.targets) / self.error_scale
        return residuals, milliseconds * slope / (time * self.error_scale)[:, None], time

    def loss(self, point: FloatArray) -> float:
        residuals, _, _ = self._evaluate(point)
        data = 2.0 * self.weights * (np.sqrt(1.0 + residuals**2) - 1.0)
        prior = self.prior_precision * (point - self.prior_mean) ** 2
        return float(data.sum() + prior.sum())

    def derivatives(self, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Half the gradient and the Gauss-Newton matrix of the loss."""
        residuals, slopes, _ = self._evaluate(point)
        rows, size = len(residuals), len(self.names)
        jacobian = np.zeros((rows, size + 1))
        every_row = np.arange(rows)
        for column in range(len(TERMS)):
            for index in (self.coefficient_index, self.factor_index, self.shared_index):
                jacobian[every_row, index[:, column]] += slopes[:, column]
        jacobian = jacobian[:, :size]
        weights = self.weights / np.sqrt(1.0 + residuals**2)
        weighted = jacobian * weights[:, None]
        gradient = weighted.T @ residuals + self.prior_precision * (point - self.prior_mean)
        curvature = weighted.T @ jacobian + np.diag(self.prior_precision)
        return gradient, curvature
