"""Iteration time as a non-negative sum of physical costs, learnt from whole iterations.

``iteration = s * convolutions + sum of coefficient x quantity``; on a device that a host feeds
with launches, the smooth maximum of that sum and the host's time. Unlike trees, it extrapolates
to networks larger than those it saw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.optimize import least_squares, nnls

from benchmarking.specs import DeviceKind
from regression.features import FeatureTable, FloatArray
from regression.smooth_maximum import smooth_maximum


@dataclass(frozen=True, slots=True)
class Term:
    """A quantity that costs time in proportion, and what is believed before any timing.

    ``multiple`` is its expected cost in units of the device's streaming rate (milliseconds per
    megabyte); where it is ``None``, ``cost_ms`` is the expectation itself, and where that is
    ``None`` too, the rate of the device's own convolutions. ``spread`` is the standard deviation
    relative to the expectation.
    """

    column: str
    multiple: float | None = None
    cost_ms: float | None = None
    spread: float = 0.5


_SHARED_TERMS = (
    Term("elementwise", multiple=1.0),
    Term("activation", multiple=1.0),
    Term("smooth_activation", multiple=2.0),
    Term("copy", multiple=1.0),
    Term("norm", multiple=2.5),
    Term("norm_backward", multiple=2.0),
    Term("optimizer", multiple=1.0),
    Term("matmul_weights", multiple=1.0),
    Term("matmul_mega_multiply_adds", spread=0.25),
)
TERMS: Mapping[DeviceKind, tuple[Term, ...]] = {
    # Max pooling also finds indices, which a CPU does element by element; tensors that the
    # allocator maps anew are paid for page by page.
    DeviceKind.CPU: (
        *_SHARED_TERMS,
        Term("pool", multiple=8.0),
        Term("pool_backward", multiple=3.0),
        Term("large_tensors", multiple=2.0),
        Term("operations", cost_ms=0.006, spread=1.0),
    ),
    DeviceKind.CUDA: (
        *_SHARED_TERMS,
        Term("pool", multiple=2.0),
        Term("pool_backward", multiple=2.0),
        Term("operations", cost_ms=0.003, spread=1.0),
    ),
}
_CONVOLUTION_SPREAD = 0.03
_LAUNCH_MS, _LAUNCH_SPREAD = 0.03, 1.0


class PhysicalModel:
    """Iteration time as a non-negative sum of physical costs, fitted in relative error.

    Maximum a posteriori under Gaussian priors around one streaming rate, which is found first:
    so a quantity that few networks have (matrix products, smooth activations) keeps a sane cost.

    Parameters
    ----------
    kind
        A CPU computes in turn; a CUDA device runs beside its host (smooth maximum).
    noise
        Relative standard deviation of one row; rows of a network are correlated, so that it is
        larger than a timing's own.
    robust_at
        Relative error beyond which a row loses weight (Huber); ``None`` for plain squares.
    spread_scale
        Factor on the spread of every prior.

    Attributes
    ----------
    streaming_ms_ : float
        Milliseconds per megabyte of streaming.
    coefficients_ : dict
        Milliseconds per unit by column, after ``fit``.
    convolution_scale_ : float
        Factor on isolated convolution timings within a network, near 1.
    launch_ms_ : float
        Host milliseconds per operation; 0 on a CPU.
    """

    def __init__(
        self,
        kind: DeviceKind = DeviceKind.CPU,
        noise: float = 0.15,
        robust_at: float | None = 0.08,
        spread_scale: float = 1.0,
    ) -> None:
        self.kind = kind
        self.noise = noise
        self.robust_at = robust_at
        self.spread_scale = spread_scale

    def fit(
        self,
        table: FeatureTable,
        iteration_ms: FloatArray,
        mega_multiply_add_ms: float | None = None,
    ) -> Self:
        """Learn the costs.

        Parameters
        ----------
        table
            Features of shape (rows, columns).
        iteration_ms
            Measured iteration times of shape (rows,).
        mega_multiply_add_ms
            Milliseconds per million multiply-adds in the device's busy convolutions.

        Raises ``ValueError`` on empty, non-finite or non-positive input.
        """
        check_training_rows(table, iteration_ms)
        terms = TERMS[self.kind]
        quantities = table.columns([term.column for term in terms])
        self.streaming_ms_ = self._streaming_ms(table, iteration_ms, terms, quantities)
        means = self._expectations(terms, mega_multiply_add_ms)
        spreads = np.array([term.spread for term in terms]) * self.spread_scale * means
        design = np.column_stack([table.convolution_ms, quantities])
        means = np.concatenate([[1.0], means])
        spreads = np.concatenate([[_CONVOLUTION_SPREAD], spreads])
        if self.kind is DeviceKind.CPU:
            solution = self._solve_sum(design, iteration_ms, means, spreads)
            self.launch_ms_ = 0.0
        else:
            host = table.column("host_operations")
            solution, self.launch_ms_ = self._solve_maximum(
                design, host, iteration_ms, means, spreads
            )
        self.convolution_scale_ = float(solution[0])
        self.coefficients_ = {
            term.column: float(value) for term, value in zip(terms, solution[1:], strict=True)
        }
        return self

    def contributions(self, table: FeatureTable) -> FloatArray:
        """Milliseconds of every term but the convolutions, of shape (rows, terms)."""
        return table.columns(list(self.coefficients_)) * np.array(list(self.coefficients_.values()))

    def device_ms(self, table: FeatureTable) -> FloatArray:
        """What the device computes in an iteration, of shape (rows,)."""
        scaled = self.convolution_scale_ * table.convolution_ms
        return np.asarray(scaled + self.contributions(table).sum(axis=1))

    def host_ms(self, table: FeatureTable) -> FloatArray:
        """What the host needs to launch an iteration, of shape (rows,); 0 on a CPU."""
        return self.launch_ms_ * table.column("host_operations")

    def predict(self, table: FeatureTable) -> FloatArray:
        """Iteration milliseconds of shape (rows,)."""
        device_ms = self.device_ms(table)
        if self.kind is DeviceKind.CPU:
            return device_ms
        return smooth_maximum(self.host_ms(table), device_ms)

    def to_state(self) -> dict[str, Any]:
        """What was learnt, as JSON holds it."""
        return {
            "kind": self.kind.value,
            "streaming_ms": self.streaming_ms_,
            "coefficients": self.coefficients_,
            "convolution_scale": self.convolution_scale_,
            "launch_ms": self.launch_ms_,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The fitted model of ``to_state``."""
        model = cls(kind=DeviceKind(state["kind"]))
        model.streaming_ms_ = state["streaming_ms"]
        model.coefficients_ = dict(state["coefficients"])
        model.convolution_scale_ = state["convolution_scale"]
        model.launch_ms_ = state["launch_ms"]
        return model

    def _streaming_ms(
        self,
        table: FeatureTable,
        iteration_ms: FloatArray,
        terms: Sequence[Term],
        quantities: FloatArray,
    ) -> float:
        multiples = np.array([term.multiple or 0.0 for term in terms])
        streamed = np.maximum(quantities @ multiples, 1e-9)
        rates = (iteration_ms - table.convolution_ms) / streamed
        if self.kind is not DeviceKind.CPU:
            # A host-bound row says nothing about the device: only each network's largest batch.
            largest = {
                name: table.batch_sizes[table.architectures == name].max()
                for name in set(table.architectures)
            }
            rates = rates[
                [
                    size == largest[name]
                    for name, size in zip(table.architectures, table.batch_sizes, strict=True)
                ]
            ]
        rate = float(np.median(rates))
        if rate > 0:
            return rate
        # Remainders at or below zero carry no rate: a hundredth of the whole iteration's keeps
        # the priors finite, and the convolutions' scale takes up the difference.
        return float(np.median(iteration_ms / streamed)) / 100

    def _expectations(
        self, terms: Sequence[Term], mega_multiply_add_ms: float | None
    ) -> FloatArray:
        fallback_ms = self.streaming_ms_ / 10
        return np.array(
            [
                term.multiple * self.streaming_ms_
                if term.multiple is not None
                else term.cost_ms or mega_multiply_add_ms or fallback_ms
                for term in terms
            ]
        )

    def _solve_sum(
        self,
        design: FloatArray,
        iteration_ms: FloatArray,
        means: FloatArray,
        spreads: FloatArray,
    ) -> FloatArray:
        weights = np.ones(len(iteration_ms))
        priors = np.diag(1 / spreads)
        solution = means
        for _ in range(1 if self.robust_at is None else 6):
            scale = np.sqrt(weights) / (iteration_ms * self.noise)
            rows = np.vstack([design * scale[:, None], priors])
            targets = np.concatenate([iteration_ms * scale, means / spreads])
            solution = nnls(rows, targets, maxiter=100 * rows.shape[1])[0]
            if self.robust_at is not None:
                errors = np.abs(design @ solution / iteration_ms - 1)
                weights = 1 / np.maximum(1.0, errors / self.robust_at)
        return np.asarray(solution)

    def _solve_maximum(
        self,
        design: FloatArray,
        host_operations: FloatArray,
        iteration_ms: FloatArray,
        means: FloatArray,
        spreads: FloatArray,
    ) -> tuple[FloatArray, float]:
        all_means = np.concatenate([means, [_LAUNCH_MS]])
        all_spreads = np.concatenate([spreads, [_LAUNCH_MS * _LAUNCH_SPREAD]])

        def residuals(relative: FloatArray) -> FloatArray:
            values = relative * all_means
            predicted = smooth_maximum(host_operations * values[-1], design @ values[:-1])
            return np.concatenate(
                [(predicted / iteration_ms - 1) / self.noise, (values - all_means) / all_spreads]
            )

        found = least_squares(
            residuals, np.ones(len(all_means)), bounds=(0, np.inf), loss="soft_l1", max_nfev=200
        )
        values = found.x * all_means
        return values[:-1], float(values[-1])


def check_training_rows(table: FeatureTable, iteration_ms: FloatArray) -> None:
    """Refuse rows that no estimator can learn from, with a ``ValueError`` that says why."""
    if not len(table):
        raise ValueError("no measured iterations to learn from")
    if iteration_ms.shape != table.batch_sizes.shape:
        raise ValueError("one iteration time is needed for each row of features")
    if not (np.isfinite(iteration_ms).all() and (iteration_ms > 0).all()):
        raise ValueError("iteration times must be positive finite milliseconds")
    if not np.isfinite(table.values).all():
        raise ValueError("features must be finite")
