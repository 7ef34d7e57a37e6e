"""From convolution times and features to iteration time: a physical model times a learnt ratio.

``iteration = physical model * exp(trees)``. Trees alone cannot extrapolate to networks larger
than those they saw; the physical model can, and what it gets systematically wrong is left to the
trees. The remainder is iteration minus convolutions: it may be negative, and stays so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from benchmarking.specs import DeviceKind
from regression.boosters import booster_from_bytes, booster_to_bytes
from regression.features import FeatureTable, FloatArray
from regression.physical_model import PhysicalModel


class IterationModel:
    """The physical model times trees on the logarithm of the ratio to it; scikit-learn style.

    Parameters
    ----------
    kind
        Of the device.
    trees, depth, learning_rate
        Size of the correction; 0 trees leave the physical model alone.
    seed
        Of the row and column sampling; one thread makes it deterministic.

    Attributes
    ----------
    physical_ : PhysicalModel
    booster_ : xgboost.Booster or None
        ``None`` where there were too few networks to learn a correction from.
    """

    FEWEST_NETWORKS = 8
    LARGEST_CORRECTION = 0.4

    def __init__(
        self,
        kind: DeviceKind = DeviceKind.CPU,
        trees: int = 120,
        depth: int = 3,
        learning_rate: float = 0.05,
        seed: int = 20,
    ) -> None:
        self.kind = kind
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
        """Learn both parts; arguments and errors as :meth:`PhysicalModel.fit`."""
        self.physical_ = PhysicalModel(self.kind).fit(table, iteration_ms, mega_multiply_add_ms)
        self.booster_: xgb.Booster | None = None
        if self.trees and len(set(table.architectures)) >= self.FEWEST_NETWORKS:
            ratio = np.log(iteration_ms / self.physical_.predict(table))
            matrix = xgb.DMatrix(
                self._tree_features(table),
                label=np.clip(ratio, -self.LARGEST_CORRECTION, self.LARGEST_CORRECTION),
                feature_names=self.tree_feature_names(),
            )
            self.booster_ = xgb.train(
                {
                    "objective": "reg:squarederror",
                    "max_depth": self.depth,
                    "eta": self.learning_rate,
                    "lambda": 5.0,
                    "min_child_weight": 20,
                    "subsample": 0.7,
                    "colsample_bytree": 0.5,
                    "num_parallel_tree": 4,
                    "base_score": 0.0,
                    "tree_method": "hist",
                    "max_bin": 64,
                    "nthread": 1,
                    "seed": self.seed,
                },
                matrix,
                num_boost_round=self.trees,
            )
        return self

    def predict(self, table: FeatureTable) -> FloatArray:
        """Iteration milliseconds of shape (rows,)."""
        physical_ms = self.physical_.predict(table)
        if self.booster_ is None or not len(table):
            return physical_ms
        correction = self.booster_.inplace_predict(
            self._tree_features(table), validate_features=False
        )
        return np.asarray(physical_ms * np.exp(np.asarray(correction, dtype=float)))

    def is_host_bound(self, table: FeatureTable) -> NDArray[np.bool_]:
        """Whether the host takes longer than the device, of shape (rows,)."""
        return np.asarray(self.physical_.host_ms(table) > self.physical_.device_ms(table))

    @staticmethod
    def tree_feature_names() -> list[str]:
        """Names of the correction's features, in order.

        Size, batch and kinds of convolution only: given each operation's share as well, trees
        learn families by heart and err more on one they have not seen (docs/method.md).
        """
        return [
            "log_batch_size",
            "log_ms_per_example",
            "log_saved",
            "large_share",
            "share_depthwise_convolution",
            "share_grouped_convolution",
            "share_pointwise_convolution",
            "share_dense_convolution",
        ]

    def _tree_features(self, table: FeatureTable) -> FloatArray:
        physical_ms = self.physical_.predict(table)
        saved = table.column("saved")
        return np.column_stack(
            [
                np.log(table.batch_sizes),
                np.log(physical_ms / table.batch_sizes),
                np.log1p(saved),
                table.column("large_tensors") / np.maximum(saved, 1e-9),
                table.convolution_kinds_ms() / physical_ms[:, None],
            ]
        )

    def booster_bytes(self) -> bytes:
        """The correction, for :meth:`from_state`; empty where there is none."""
        return b"" if self.booster_ is None else booster_to_bytes(self.booster_)

    def to_state(self) -> dict[str, Any]:
        """Everything but the booster, as JSON holds it."""
        return self.physical_.to_state()

    @classmethod
    def from_state(cls, state: Mapping[str, Any], booster_bytes: bytes) -> Self:
        """The fitted model of ``to_state`` and ``booster_bytes``."""
        model = cls(kind=DeviceKind(state["kind"]))
        model.physical_ = PhysicalModel.from_state(state)
        model.booster_ = booster_from_bytes(booster_bytes) if booster_bytes else None
        return model
