"""Milliseconds of a convolution layer on a device, from the device's specification.

A roofline times a correction that gradient-boosted trees learnt from public layer timings on
other layers and other devices. Depthwise and grouped layers have no public timings; their
correction is only the trees' guess, which the step estimator replaces by a bandwidth term.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from benchmarking.specs import ConvolutionSpec, DeviceSpec, Pass, Precision
from regression.layer_features import (
    FEATURE_NAMES,
    LAUNCH_MS,
    PASS_CODES,
    FloatArray,
    LayerTable,
    Rates,
    layer_features,
)
from regression.public_data.layer_timings import DEEPBENCH, LayerTimings

_SMALLEST_MS = 0.004
"""A timing less the launch never counts as shorter, so that its logarithm exists."""


class LayerEstimator:
    """Estimates layer times on any device; scikit-learn style, deterministic.

    Parameters
    ----------
    trees, depth, learning_rate
        Size of the gradient-boosted correction.
    source_weights
        Weight of a row by the data set it is from.
    seed
        Of the row and column sampling.

    Attributes
    ----------
    booster_ : xgboost.Booster
        Correction of the roofline's logarithm, after ``fit`` or ``load``.
    """

    def __init__(
        self,
        trees: int = 250,
        depth: int = 6,
        learning_rate: float = 0.12,
        source_weights: tuple[float, ...] = (1.0, 0.3, 0.3, 1.0),
        seed: int = 20,
    ) -> None:
        self.trees = trees
        self.depth = depth
        self.learning_rate = learning_rate
        self.source_weights = source_weights
        self.seed = seed

    def fit(self, timings: Sequence[LayerTimings], devices: Mapping[str, DeviceSpec]) -> Self:
        """Learn the correction from timings on devices whose specification is given."""
        if not timings:
            raise ValueError("no layer timings to learn from")
        columns, targets, weights = [], [], []
        for timing in timings:
            device = devices[timing.device]
            roofline = Rates.of(device, timing.precision).roofline_ms(timing.layers)
            columns.append(
                layer_features(
                    device, timing.layers, timing.passes, timing.precision, timing.source
                )
            )
            spent = np.maximum(timing.milliseconds - LAUNCH_MS, _SMALLEST_MS)
            targets.append(np.log(spent / roofline))
            own = np.ones(len(spent)) if timing.weights is None else timing.weights
            weights.append(own * self.source_weights[timing.source])
        matrix = xgb.DMatrix(
            np.concatenate(columns),
            label=np.concatenate(targets),
            weight=np.concatenate(weights),
            feature_names=list(FEATURE_NAMES),
        )
        self.booster_ = xgb.train(
            {
                "objective": "reg:pseudohubererror",
                "huber_slope": 0.3,
                "max_depth": self.depth,
                "eta": self.learning_rate,
                "subsample": 0.8,
                "colsample_bytree": 0.6,
                "min_child_weight": 5,
                "lambda": 2.0,
                "base_score": float(np.median(np.concatenate(targets))),
                "tree_method": "hist",
                "max_bin": 64,
                "seed": self.seed,
                "nthread": 1,
            },
            matrix,
            num_boost_round=self.trees,
        )
        return self

    def predict(
        self,
        device: DeviceSpec,
        layers: Sequence[ConvolutionSpec],
        batch_sizes: Sequence[int] | NDArray[np.int64],
        passes: Sequence[Pass],
        precision: Precision,
    ) -> FloatArray:
        """Milliseconds of each pass; ``layers``, ``batch_sizes`` and ``passes`` equally long.

        Raises ``ValueError`` when the device's rates are unknown or it lacks the precision.
        """
        table = LayerTable.from_specs(layers, batch_sizes)
        codes = np.array([PASS_CODES[each] for each in passes], dtype=np.int64)
        return self.predict_table(device, table, codes, precision)

    def predict_table(
        self,
        device: DeviceSpec,
        layers: LayerTable,
        passes: NDArray[np.int64],
        precision: Precision,
        source: int = DEEPBENCH,
    ) -> FloatArray:
        """As ``predict``, for a table of layers and coded passes."""
        return self.predict_places([(device, precision)], layers, passes, source)[0]

    def predict_places(
        self,
        places: Sequence[tuple[DeviceSpec, Precision]],
        layers: LayerTable,
        passes: NDArray[np.int64],
        source: int,
    ) -> list[FloatArray]:
        """``predict_table`` for several devices and precisions in one call of the trees."""
        features = np.concatenate(
            [
                layer_features(device, layers, passes, precision, source)
                for device, precision in places
            ]
        )
        corrections = self.booster_.inplace_predict(features, validate_features=False)
        return [
            np.asarray(
                LAUNCH_MS
                + Rates.of(device, precision).roofline_ms(layers) * np.exp(correction.astype(float))
            )
            for (device, precision), correction in zip(
                places, np.split(corrections, len(places)), strict=True
            )
        ]

    def save(self, path: Path) -> None:
        """Write the correction in XGBoost's own binary format."""
        self.booster_.save_model(path)

    def load(self, path: Path) -> Self:
        """Read a correction that ``save`` wrote.

        Raises ``ValueError`` where the file holds none, or one of other features: their number
        and order is all that trees go by, and they would answer with nonsense.
        """
        booster = xgb.Booster({"nthread": 1})
        booster.load_model(path)
        if booster.feature_names != list(FEATURE_NAMES):
            raise ValueError(f"{path.name} was learnt from other features than this version has")
        self.booster_ = booster
        return self
