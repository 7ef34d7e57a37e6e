"""Times of layers that were not measured, from the layers that were measured on the same device.

Trees on the logarithm of milliseconds per multiply-add: how fast a device is in layers like this
one. Unlike the layer estimator it needs no specification, and it knows one device only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from benchmarking.specs import ConvolutionSpec, Pass, TracedNetwork
from regression.boosters import booster_from_bytes, booster_to_bytes
from regression.convolution import ConvolutionKind, LayerTimes, convolution_kind, sum_convolutions
from regression.features import MEGA, FloatArray

LayerPass = tuple[ConvolutionSpec, int, Pass]
"""A layer, a batch size and a pass."""

_KINDS = {kind: position for position, kind in enumerate(ConvolutionKind)}
_PASSES = {each: position for position, each in enumerate(Pass)}


class DeviceLayerModel:
    """Interpolates between the layers that one device and stack were timed with.

    Parameters
    ----------
    trees, depth, learning_rate, seed
        Of XGBoost.

    Attributes
    ----------
    booster_ : xgboost.Booster
    batch_sizes_ : tuple of int
        Batch sizes at which most of the layers were timed.
    """

    FEWEST_LAYERS = 40
    FOLDS = 6

    def __init__(
        self, trees: int = 200, depth: int = 5, learning_rate: float = 0.1, seed: int = 20
    ) -> None:
        self.trees = trees
        self.depth = depth
        self.learning_rate = learning_rate
        self.seed = seed

    def fit(self, passes: Sequence[LayerPass], milliseconds: FloatArray) -> Self:
        """Learn from timed passes; raises ``ValueError`` on none or on a time that is no time."""
        if not passes:
            raise ValueError("no layer timings to learn from")
        if not (np.isfinite(milliseconds).all() and (milliseconds > 0).all()):
            raise ValueError("layer times must be positive finite milliseconds")
        rates = np.log(milliseconds / _mega_multiply_adds(passes))
        self.booster_ = xgb.train(
            {
                "objective": "reg:squarederror",
                "max_depth": self.depth,
                "eta": self.learning_rate,
                "lambda": 2.0,
                "min_child_weight": 3,
                "subsample": 0.8,
                "colsample_bytree": 0.7,
                "base_score": float(np.median(rates)),
                "tree_method": "hist",
                "nthread": 1,
                "seed": self.seed,
            },
            xgb.DMatrix(_features(passes), label=rates),
            num_boost_round=self.trees,
        )
        counts = Counter(batch_size for _, batch_size, _ in passes)
        most = max(counts.values())
        self.batch_sizes_ = tuple(sorted(b for b, count in counts.items() if 2 * count >= most))
        return self

    def predict(self, passes: Sequence[LayerPass]) -> FloatArray:
        """Milliseconds of each pass, of shape (passes,)."""
        if not passes:
            return np.zeros(0)
        rates = self.booster_.inplace_predict(_features(passes), validate_features=False)
        return np.asarray(np.exp(np.asarray(rates, dtype=float)) * _mega_multiply_adds(passes))

    def booster_bytes(self) -> bytes:
        """The trees, for :meth:`from_state`."""
        return booster_to_bytes(self.booster_)

    @classmethod
    def from_state(cls, batch_sizes: Sequence[int], booster_bytes: bytes) -> Self:
        """The fitted model of ``batch_sizes_`` and ``booster_bytes``."""
        model = cls()
        model.batch_sizes_ = tuple(batch_sizes)
        model.booster_ = booster_from_bytes(booster_bytes)
        return model


def fit_device_layers(
    networks: Sequence[TracedNetwork], times: LayerTimes
) -> DeviceLayerModel | None:
    """The model of all timed layers of ``networks``; ``None`` where they are too few."""
    passes, milliseconds, _ = _timed_passes(networks, times)
    if len({layer for layer, _, _ in passes}) < DeviceLayerModel.FEWEST_LAYERS:
        return None
    return DeviceLayerModel().fit(passes, milliseconds)


def left_out_errors(networks: Sequence[TracedNetwork], times: LayerTimes) -> dict[str, list[float]]:
    """Log errors of each network's sum of convolutions if all its layers had to be estimated.

    Each layer is predicted by a model that saw none of the family that has it first: what is
    left is at most as close as a family never seen. Empty where ``fit_device_layers`` gives none.
    """
    passes, milliseconds, owners = _timed_passes(networks, times)
    families = {family: number for number, family in enumerate(sorted(set(owners)))}
    if len({layer for layer, _, _ in passes}) < DeviceLayerModel.FEWEST_LAYERS or len(families) < 2:
        return {}
    folds = np.array([families[family] % DeviceLayerModel.FOLDS for family in owners])
    estimated = np.zeros(len(passes))
    for fold in sorted(set(folds)):
        inside = np.flatnonzero(folds == fold)
        outside = np.flatnonzero(folds != fold)
        model = DeviceLayerModel().fit([passes[i] for i in outside], milliseconds[outside])
        estimated[inside] = model.predict([passes[i] for i in inside])
    estimates = {
        (layer.key, batch_size, each): float(ms)
        for (layer, batch_size, each), ms in zip(passes, estimated, strict=True)
    }
    sizes = sorted({batch_size for _, batch_size, _ in passes})
    errors: dict[str, list[float]] = {}
    for network in networks:
        for size in sizes:
            timed = sum_convolutions(network, size, times)
            if timed.is_complete:
                guess = sum_convolutions(network, size, estimates).milliseconds
                errors.setdefault(network.slug, []).append(
                    float(np.log(timed.milliseconds / guess))
                )
    return errors


def missing_times(
    network: TracedNetwork, batch_sizes: Iterable[int], times: LayerTimes, model: DeviceLayerModel
) -> Mapping[LayerPass, float]:
    """Estimated milliseconds of the passes of a network that ``times`` lacks."""
    missing = [
        (layer, size, each)
        for size in batch_sizes
        for layer, each in sum_convolutions(network, size, times).missing
    ]
    missing = list(dict.fromkeys(missing))
    return dict(zip(missing, (float(ms) for ms in model.predict(missing)), strict=True))


def _timed_passes(
    networks: Sequence[TracedNetwork], times: LayerTimes
) -> tuple[list[LayerPass], FloatArray, list[str]]:
    """Timed passes, their milliseconds, and the first family that has each layer; sorted."""
    layers: dict[str, tuple[ConvolutionSpec, str]] = {}
    for network in networks:
        for use in network.convolutions:
            layers.setdefault(use.layer.key, (use.layer, network.family))
    keys = sorted((key for key in times if key[0] in layers), key=lambda key: (*key[:2], key[2]))
    passes = [(layers[key][0], size, each) for key, size, each in keys]
    return passes, np.array([times[key] for key in keys]), [layers[key[0]][1] for key in keys]


def _mega_multiply_adds(passes: Sequence[LayerPass]) -> FloatArray:
    return np.array([layer.multiply_adds * size / MEGA for layer, size, _ in passes])


def _features(passes: Sequence[LayerPass]) -> NDArray[np.float64]:
    # Most of a layer's features are the same for all its passes and batch sizes.
    known: dict[ConvolutionSpec, list[float]] = {}
    rows = []
    for layer, size, each in passes:
        shape = known.get(layer)
        if shape is None:
            shape = known[layer] = _shape_features(layer)
        logarithm = np.log(size)
        rows.append([logarithm, float(_PASSES[each]), float(size >= MKLDNN_BATCH_SIZE), *shape])
    features = np.array(rows)
    for column in _GROWING_WITH_BATCH:
        features[:, column] += features[:, 0]
    return features


MKLDNN_BATCH_SIZE = 16
"""From here PyTorch on one CPU thread gives every convolution to oneDNN, below only some."""

_GROWING_WITH_BATCH = (3, 4, 5)
"""Columns of the logarithms of multiply-adds, input and output."""


def _shape_features(layer: ConvolutionSpec) -> list[float]:
    logarithms = np.log(
        [
            layer.multiply_adds,
            layer.input_elements,
            layer.output_elements,
            layer.in_channels / layer.groups,
            layer.out_channels / layer.groups,
            layer.groups,
            layer.out_height * layer.out_width,
            layer.weight_elements,
        ]
    )
    return [
        *logarithms,
        float(_KINDS[convolution_kind(layer)]),
        float(layer.kernel_height * layer.kernel_width),
        float(layer.stride_height),
        float(layer.dilation_height),
        float(layer.in_channels % 16 == 0),
        float(layer.out_channels % 16 == 0),
        float(layer.bias),
    ]
