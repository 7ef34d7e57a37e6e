"""Devices that nobody timed for us: iteration times from the specification."""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import lru_cache

from benchmarking.specs import TracedNetwork
from regression.answers import Answer, Place
from regression.iteration_points import IterationPoint
from regression.sources import Source
from regression.step_estimator import (
    LARGEST_BATCH_SIZE,
    EstimatorFormatError,
    StepEstimator,
)
from regression.stored_reports import ESTIMATOR_FOLDER


@lru_cache(maxsize=1)
def shipped_estimator() -> StepEstimator:
    """The estimator in ``fixtures/estimator``; raises ``EstimatorFormatError`` without it."""
    return StepEstimator.load(ESTIMATOR_FOLDER)


def answer_from_specification(
    network: TracedNetwork, place: Place, wanted: Collection[int]
) -> Answer:
    """Estimated points at the ``wanted`` batch sizes that the estimator covers."""
    try:
        estimator = shipped_estimator()
    except EstimatorFormatError:
        return Answer(refusal="Not covered: no estimator for devices without timings is installed.")
    sizes = sorted(size for size in wanted if size <= LARGEST_BATCH_SIZE)
    refusal = f"Estimates from a specification end at batch size {LARGEST_BATCH_SIZE}."
    if not sizes:
        return Answer(refusal=refusal)
    try:
        estimate = estimator.estimate(
            network, place.device.to_spec(), sizes, place.precision, place.optimizer
        )
    except ValueError as error:
        return Answer(refusal=f"Not estimated: {error}.")
    points = {
        size: IterationPoint(
            size,
            float(estimate.iteration_ms[position]),
            math.log(estimate.high_ms[position] / estimate.iteration_ms[position]),
            Source.ESTIMATED,
            measured_share=0.0,
            bound_by=estimate.bound_by[position],
            note=estimate.note or None,
        )
        for position, size in enumerate(sizes)
    }
    return Answer(points, model_version=estimator.model_version, refusal=refusal)
