"""Unmeasured layers from the measured ones of the same device."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from benchmarking.specs import ConvolutionSpec, ConvolutionUse, Pass
from regression.convolution import sum_convolutions
from regression.device_layers import (
    DeviceLayerModel,
    fit_device_layers,
    left_out_errors,
    missing_times,
)
from regression.tests.synthetic import (
    MS_PER_MEGA_MULTIPLY_ADD,
    make_layer_times,
    make_network,
    make_networks,
)

NETWORKS = make_networks(12)
TIMES = make_layer_times(NETWORKS)
NEW = make_network("newcomer", seed=77)


def fitted() -> DeviceLayerModel:
    model = fit_device_layers(NETWORKS, TIMES)
    assert model is not None
    return model


def test_a_constant_rate_is_learnt_for_any_layer() -> None:
    layer = ConvolutionSpec(48, 100, 100, 72, 5, 5)
    estimate = fitted().predict([(layer, 3, Pass.BACKWARD_DATA)])
    truth = MS_PER_MEGA_MULTIPLY_ADD * layer.multiply_adds * 3 / 1e6
    assert estimate == pytest.approx([truth], rel=1e-3)


def test_slow_kinds_of_layers_are_told_apart() -> None:
    depthwise = dataclasses.replace(
        make_network("thin", seed=80),
        convolutions=tuple(
            ConvolutionUse(ConvolutionSpec(c, 32, 32, c, 3, 3, groups=c), count=1)
            for c in range(8, 168, 4)
        ),
    )
    slow = {key: 20 * ms for key, ms in make_layer_times([depthwise]).items()}
    model = fit_device_layers([*NETWORKS, depthwise], {**TIMES, **slow})
    assert model is not None
    thin = ConvolutionSpec(50, 32, 32, 50, 3, 3, groups=50)
    estimate = model.predict([(thin, 4, Pass.FORWARD)])[0]
    truth = 20 * MS_PER_MEGA_MULTIPLY_ADD * thin.multiply_adds * 4 / 1e6
    assert estimate == pytest.approx(truth, rel=0.25)


def test_only_what_is_missing_is_estimated() -> None:
    known = NEW.convolutions[0].layer
    times = {key: ms for key, ms in make_layer_times([NEW]).items() if key[0] == known.key}
    estimates = missing_times(NEW, (2,), times, fitted())
    assert {size for _, size, _ in estimates} == {2}
    assert known not in {layer for layer, _, _ in estimates}
    filled = sum_convolutions(NEW, 2, times, lambda *key: estimates[key])
    truth = sum_convolutions(NEW, 2, make_layer_times([NEW]))
    assert filled.milliseconds == pytest.approx(truth.milliseconds, rel=1e-3)
    assert 0 < filled.measured_share < 1


def test_batch_sizes_are_those_most_layers_have() -> None:
    few = {(NEW.convolutions[0].layer.key, 64, Pass.FORWARD): 5.0}
    model = fit_device_layers([*NETWORKS, NEW], {**TIMES, **few})
    assert model is not None
    assert model.batch_sizes_ == (1, 2, 4, 8)


def test_too_few_layers_give_no_model() -> None:
    assert fit_device_layers(NETWORKS[:2], TIMES) is None
    assert left_out_errors(NETWORKS[:2], TIMES) == {}


def test_errors_are_those_of_families_not_seen() -> None:
    family = {"net04", "net05"}
    own = {u.layer.key for n in NETWORKS if n.slug in family for u in n.convolutions}
    others = {u.layer.key for n in NETWORKS if n.slug not in family for u in n.convolutions}
    slower = {key: 3 * ms if key[0] in own - others else ms for key, ms in TIMES.items()}
    errors = left_out_errors(NETWORKS, slower)
    assert set(errors) == {network.slug for network in NETWORKS}
    # Nothing told the model that this family's layers are three times slower.
    assert np.mean(errors["net04"]) > 0.25
    assert left_out_errors(NETWORKS, TIMES)["net04"] == pytest.approx([0] * 4, abs=0.01)


def test_save_and_load() -> None:
    model = fitted()
    loaded = DeviceLayerModel.from_state(model.batch_sizes_, model.booster_bytes())
    passes = [(use.layer, 8, Pass.FORWARD) for use in NEW.convolutions]
    assert loaded.predict(passes).tolist() == model.predict(passes).tolist()
    assert loaded.batch_sizes_ == model.batch_sizes_
    assert fitted().booster_bytes() == model.booster_bytes()


def test_bad_times_are_refused() -> None:
    passes = [(NEW.convolutions[0].layer, 1, Pass.FORWARD)]
    for bad in (np.nan, 0.0, -1.0):
        with pytest.raises(ValueError, match="positive finite"):
            DeviceLayerModel().fit(passes, np.array([bad]))
    with pytest.raises(ValueError, match="no layer timings"):
        DeviceLayerModel().fit([], np.zeros(0))
    assert fitted().predict([]).shape == (0,)
