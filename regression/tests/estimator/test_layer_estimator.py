from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xgboost as xgb

from benchmarking.specs import Pass, Precision
from regression.layer_estimator import LayerEstimator
from regression.layer_features import LayerTable, Rates
from regression.tests.estimator.specimens import AMPERE, BLOCK, DEVICES, VOLTA, roofline_timings


@pytest.fixture(scope="module")
def fitted() -> LayerEstimator:
    timings = [*roofline_timings(VOLTA, 2.0), *roofline_timings(AMPERE, 3.0)]
    return LayerEstimator(trees=60).fit(timings, DEVICES)


@pytest.mark.parametrize(("device", "slowdown"), [(VOLTA, 2.0), (AMPERE, 3.0)])
def test_it_learns_how_far_above_the_roofline_each_device_is(
    fitted: LayerEstimator, device: object, slowdown: float
) -> None:
    spec = DEVICES[device.slug]  # type: ignore[attr-defined]
    layers = LayerTable.from_specs([BLOCK], [32])
    expected = 0.005 + slowdown * Rates.of(spec, Precision.FP32).roofline_ms(layers)[0]
    found = fitted.predict(spec, [BLOCK], [32], [Pass.FORWARD], Precision.FP32)
    assert found[0] == pytest.approx(expected, rel=0.1)


def test_predictions_follow_the_order_of_layers_and_passes(fitted: LayerEstimator) -> None:
    together = fitted.predict(
        VOLTA, [BLOCK, BLOCK], [8, 64], [Pass.FORWARD, Pass.BACKWARD_DATA], Precision.FP32
    )
    alone = fitted.predict(VOLTA, [BLOCK], [64], [Pass.BACKWARD_DATA], Precision.FP32)
    assert together[1] == alone[0]
    assert together[0] < together[1]


def test_several_places_in_one_call_are_the_same_as_one_by_one(fitted: LayerEstimator) -> None:
    layers = LayerTable.from_specs([BLOCK], [16])
    passes = np.array([0])
    both = fitted.predict_places(
        [(VOLTA, Precision.FP32), (AMPERE, Precision.TF32)], layers, passes, 0
    )
    assert both[0][0] == fitted.predict_table(VOLTA, layers, passes, Precision.FP32)[0]
    assert both[1][0] == fitted.predict_table(AMPERE, layers, passes, Precision.TF32)[0]


def test_fitting_twice_gives_equal_bytes(tmp_path: Path) -> None:
    for name in ("a.ubj", "b.ubj"):
        LayerEstimator(trees=10).fit(roofline_timings(VOLTA, 2.0), DEVICES).save(tmp_path / name)
    assert (tmp_path / "a.ubj").read_bytes() == (tmp_path / "b.ubj").read_bytes()


def test_a_stored_estimator_predicts_the_same(fitted: LayerEstimator, tmp_path: Path) -> None:
    fitted.save(tmp_path / "layers.ubj")
    loaded = LayerEstimator().load(tmp_path / "layers.ubj")
    request = (VOLTA, [BLOCK], [16], [Pass.BACKWARD_FILTER], Precision.FP32)
    assert loaded.predict(*request)[0] == fitted.predict(*request)[0]


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(ValueError, match="no layer timings"):
        LayerEstimator().fit([], DEVICES)


def test_a_correction_of_other_features_is_refused(tmp_path: Path) -> None:
    older = xgb.train({}, xgb.DMatrix(np.ones((4, 2)), np.ones(4), feature_names=["a", "b"]), 1)
    older.save_model(tmp_path / "layers.ubj")
    with pytest.raises(ValueError, match=r"layers\.ubj was learnt from other features"):
        LayerEstimator().load(tmp_path / "layers.ubj")
