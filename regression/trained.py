"""Fitted models in and out of the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from regression.intervals import IntervalModel
from regression.models import TrainedModel
from regression.remainder import IterationModel


@dataclass(frozen=True)
class FittedModel:
    """A stored model, ready to use."""

    iterations: IterationModel
    intervals: IntervalModel


def load_fitted(trained: TrainedModel) -> FittedModel:
    """The fitted model of a row; the last few are kept in memory."""
    return _load(
        _Stored(
            trained.pk,
            trained.trained_at,
            trained.coefficients,
            trained.booster,
            trained.interval_errors,
        )
    )


class _Stored:
    """A row's learnt state, compared by identity and time of the row alone."""

    def __init__(
        self,
        pk: int,
        trained_at: datetime,
        coefficients: dict[str, Any],
        booster: bytes | memoryview,
        interval_errors: dict[str, Any],
    ) -> None:
        self.key = (pk, trained_at)
        self.coefficients = coefficients
        self.booster = booster
        self.interval_errors = interval_errors

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Stored) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@lru_cache(maxsize=16)
def _load(stored: _Stored) -> FittedModel:
    return FittedModel(
        IterationModel.from_state(stored.coefficients, bytes(stored.booster)),
        IntervalModel.from_json(stored.interval_errors),
    )
