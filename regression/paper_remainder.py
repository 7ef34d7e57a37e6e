"""The original's way to the remainder, kept as a baseline and judged on the same splits."""

from __future__ import annotations

from typing import Self

import numpy as np
import xgboost as xgb

from regression.features import BYTE_GROUPS, FeatureTable, FloatArray
from regression.physical_model import check_training_rows


class PaperRemainder:
    """The original's method, as a baseline: XGBoost alone on aggregated layer parameters.

    Learns the remainder in milliseconds from sums over the layers that are no convolutions and
    the batch size, and adds the convolutions' times.

    Parameters
    ----------
    trees, depth, learning_rate, seed
        Of XGBoost.

    Attributes
    ----------
    booster_ : xgboost.Booster
    """

    COLUMNS = (*BYTE_GROUPS, "matmul_weights", "matmul_mega_multiply_adds", "operations")

    def __init__(
        self, trees: int = 200, depth: int = 4, learning_rate: float = 0.1, seed: int = 20
    ) -> None:
        self.trees = trees
        self.depth = depth
        self.learning_rate = learning_rate
        self.seed = seed

    def fit(
        self,
        table: FeatureTable,
        iteration_ms: FloatArray,
        mega_multiply_add_ms: float | None = None,
    ) -> Self:
        """Learn the remainder; the convolutions' rate is not used."""
        check_training_rows(table, iteration_ms)
        matrix = xgb.DMatrix(self._features(table), label=iteration_ms - table.convolution_ms)
        self.booster_ = xgb.train(
            {
                "objective": "reg:squarederror",
                "max_depth": self.depth,
                "eta": self.learning_rate,
                "tree_method": "hist",
                "nthread": 1,
                "seed": self.seed,
            },
            matrix,
            num_boost_round=self.trees,
        )
        return self

    def predict(self, table: FeatureTable) -> FloatArray:
        """Iteration milliseconds of shape (rows,)."""
        remainder = self.booster_.inplace_predict(self._features(table))
        return np.asarray(table.convolution_ms + np.asarray(remainder, dtype=float))

    def _features(self, table: FeatureTable) -> FloatArray:
        return np.column_stack([table.batch_sizes, table.columns(self.COLUMNS)])
