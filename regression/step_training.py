"""Learns layer times and the other terms of an iteration in turns, from published timings.

Layer timings give a first layer estimator. With its convolution times the published iterations
fit the coefficients of all terms. What is then left of each iteration's error goes back to its
layers as soft evidence, and the layer estimator learns from both; and so on for a few rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarking.specs import DeviceSpec, Precision
from regression.layer_estimator import LayerEstimator
from regression.layer_features import FloatArray, LayerTable, concatenate_layers, distinct_layers
from regression.public_data.layer_timings import DEEPBENCH, ITERATIONS, LayerTimings
from regression.smooth_maximum import SMOOTH_MAXIMUM_POWER, smooth_maximum
from regression.step_calibration import (
    CONVOLUTION_COLUMNS,
    TERMS,
    StepCalibration,
    StepContext,
    fit_calibration,
    forecast_host_factors,
)
from regression.step_rows import IterationWork, iteration_terms, layers_at_batch
from regression.step_terms import NetworkTerms

ROUNDS = 3
_LARGEST_SHIFT = 0.7
"""Logarithm by which one iteration's error may move its layers' times."""


@dataclass(frozen=True, slots=True)
class StepExample:
    """One published iteration, ready for fitting; ``network`` names what is left out together."""

    network: str
    family: str
    terms: NetworkTerms
    device: DeviceSpec
    context: StepContext
    work: IterationWork
    batch_size: int
    milliseconds: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class FittedSteps:
    """Both estimators after training; ``source`` is what layer predictions stand for."""

    layers: LayerEstimator
    calibration: StepCalibration
    source: int

    def predict(self, examples: Sequence[StepExample]) -> FloatArray:
        """Milliseconds of each example."""
        terms, _ = example_terms(examples, self.layers, self.source)
        return self.calibration.predict(terms, [example.context for example in examples])


def fit_steps(
    layer_timings: Sequence[LayerTimings],
    examples: Sequence[StepExample],
    devices: Mapping[str, DeviceSpec],
    rounds: int = ROUNDS,
    make_layers: Callable[[], LayerEstimator] = LayerEstimator,
) -> FittedSteps:
    """Fit both estimators; deterministic for equal input."""
    milliseconds = np.array([example.milliseconds for example in examples])
    weights = np.array([example.weight for example in examples])
    contexts = [example.context for example in examples]
    evidence: list[LayerTimings] = []
    source = DEEPBENCH
    for step in range(rounds):
        layers = make_layers().fit([*layer_timings, *evidence], devices)
        terms, tables = example_terms(examples, layers, source)
        calibration = fit_calibration(terms, contexts, milliseconds, weights)
        if step + 1 < rounds:
            errors = np.log(milliseconds / calibration.predict(terms, contexts))
            evidence = _infer_layers(examples, tables, errors, terms, calibration)
            source = ITERATIONS
    hosts = forecast_host_factors(contexts, calibration.values)
    return FittedSteps(layers, StepCalibration({**calibration.values, **hosts}), source)


@dataclass(frozen=True, slots=True)
class _LayerTimes:
    """Times of the distinct layers of one device and precision, and who uses them.

    ``milliseconds`` is of shape (distinct layers, 3). Use ``k`` is that example ``owners[k]`` has
    layer ``members[k]`` with ``counts[k]`` calls of each pass.
    """

    device: DeviceSpec
    precision: Precision
    layers: LayerTable
    milliseconds: FloatArray
    owners: NDArray[np.int64]
    members: NDArray[np.int64]
    counts: FloatArray


def example_terms(
    examples: Sequence[StepExample], layers: LayerEstimator, source: int
) -> tuple[FloatArray, list[_LayerTimes]]:
    """Term matrix of the examples, and the layer times inside it."""
    terms = np.zeros((len(examples), len(TERMS)))
    tables = []
    for rows in _by_device(examples):
        device, precision = examples[rows[0]].device, examples[rows[0]].context.precision
        parts = [layers_at_batch(examples[i].terms, examples[i].batch_size) for i in rows]
        table, members = distinct_layers(concatenate_layers(parts))
        codes = np.repeat(np.arange(3), len(table))
        spent = (
            layers.predict_table(device, concatenate_layers([table] * 3), codes, precision, source)
            .reshape(3, -1)
            .T
        )
        edges = np.cumsum([0, *(len(part) for part in parts)])
        for position, i in enumerate(rows):
            own = spent[members[edges[position] : edges[position + 1]]]
            terms[i] = iteration_terms(
                device,
                examples[i].terms,
                np.array([float(examples[i].batch_size)]),
                precision,
                own[:, None, :],
                examples[i].work,
            )[0]
        tables.append(
            _LayerTimes(
                device,
                precision,
                table,
                spent,
                np.repeat(rows, np.diff(edges)),
                members,
                np.concatenate([examples[i].terms.pass_counts for i in rows]),
            )
        )
    return terms, tables


def _by_device(examples: Sequence[StepExample]) -> list[list[int]]:
    groups: dict[tuple[str, Precision], list[int]] = {}
    for i, example in enumerate(examples):
        groups.setdefault((example.device.slug, example.context.precision), []).append(i)
    return list(groups.values())


def _infer_layers(
    examples: Sequence[StepExample],
    tables: Sequence[_LayerTimes],
    errors: FloatArray,
    terms: FloatArray,
    calibration: StepCalibration,
) -> list[LayerTimings]:
    """Layer times that would have made each iteration's error vanish.

    An entry counts by its share of the iteration, and not at all where the host bounds it.
    """
    contexts = [example.context for example in examples]
    coefficients = np.array([calibration.coefficients(context) for context in contexts])
    device, host, beside = calibration.parts_ms(terms, contexts)
    convolutions = (terms * coefficients)[:, CONVOLUTION_COLUMNS].sum(axis=1)
    slope = (device / smooth_maximum(host, device)) ** (SMOOTH_MAXIMUM_POWER - 1.0)
    share = convolutions / device * slope
    share *= 1.0 - beside / (device + beside)
    weight = np.array([example.weight for example in examples])
    shift = np.clip(errors, -_LARGEST_SHIFT, _LARGEST_SHIFT)
    evidence = []
    for table in tables:
        owners, members = table.owners, table.members
        for code in range(3):
            spent = table.milliseconds[members, code] * table.counts[:, code]
            part = spent / np.maximum(convolutions[owners], 1e-9)
            importance = np.bincount(
                members, _EVIDENCE_WEIGHT * weight[owners] * share[owners] * part, len(table.layers)
            )
            moved = np.bincount(
                members,
                _EVIDENCE_WEIGHT * weight[owners] * share[owners] * part * shift[owners],
                len(table.layers),
            )
            kept = np.flatnonzero((importance > _SMALLEST_IMPORTANCE) & (table.layers.groups == 1))
            evidence.append(
                LayerTimings(
                    table.device.slug,
                    table.precision,
                    ITERATIONS,
                    table.layers.take(kept),
                    np.full(len(kept), code),
                    table.milliseconds[kept, code] * np.exp(moved[kept] / importance[kept]),
                    importance[kept].astype(float),
                )
            )
    return evidence


_SMALLEST_IMPORTANCE = 0.01
_EVIDENCE_WEIGHT = 6.0
"""Weight of all layers of one iteration together, beside 1 for a layer of DeepBench."""
