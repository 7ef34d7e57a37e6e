"""Fitted models in and out of the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from regression.device_layers import DeviceLayerModel
from regression.intervals import IntervalModel
from regression.models import TrainedModel
from regression.remainder import IterationModel


@dataclass(frozen=True)
class FittedModel:
    """Everything that was learnt for a machine; ``layers`` is ``None`` with too few layers."""

    iterations: IterationModel
    layers: DeviceLayerModel | None
    intervals: IntervalModel


def stored_fields(fitted: FittedModel) -> dict[str, Any]:
    """The fields of ``TrainedModel`` that hold what was learnt."""
    return {
        "coefficients": fitted.iterations.to_state(),
        "booster": fitted.iterations.booster_bytes(),
        "layer_booster": fitted.layers.booster_bytes() if fitted.layers else b"",
        "layer_batch_sizes": list(fitted.layers.batch_sizes_) if fitted.layers else [],
        "interval_errors": fitted.intervals.to_json(),
    }


def load_fitted(trained: TrainedModel) -> FittedModel:
    """The fitted model of a row; the last few are kept in memory."""
    return _load(_Row(trained))


def read_fitted(trained: TrainedModel) -> FittedModel:
    """The fitted model of a row that need not be stored; raises whatever a damaged one gives."""
    layer_booster = bytes(trained.layer_booster)
    return FittedModel(
        IterationModel.from_state(trained.coefficients, bytes(trained.booster)),
        DeviceLayerModel.from_state(trained.layer_batch_sizes, layer_booster)
        if layer_booster
        else None,
        IntervalModel.from_json(trained.interval_errors),
    )


class _Row:
    """A stored model, compared by its key and time alone: what they name does not change."""

    def __init__(self, trained: TrainedModel) -> None:
        self.trained = trained
        self.key: tuple[int, datetime] = (trained.pk, trained.trained_at)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Row) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@lru_cache(maxsize=16)
def _load(row: _Row) -> FittedModel:
    return read_fitted(row.trained)
