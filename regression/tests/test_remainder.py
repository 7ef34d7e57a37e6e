"""The physical model times trees, on devices whose true costs are known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarking.specs import DeviceKind
from regression.features import FeatureTable
from regression.paper_remainder import PaperRemainder
from regression.physical_model import PhysicalModel
from regression.remainder import IterationModel
from regression.smooth_maximum import smooth_maximum
from regression.tests.synthetic import (
    errors_pct,
    make_network,
    make_networks,
    make_table,
    true_device_ms,
)

NETWORKS = make_networks(24)
TABLE = make_table(NETWORKS)
TRUE_MS = true_device_ms(TABLE)


def test_a_network_ten_times_larger_is_extrapolated() -> None:
    model = IterationModel().fit(TABLE, TRUE_MS)
    large = make_table([make_network("large", seed=99, depth=40)], batch_sizes=(64,))
    physical = model.physical_.predict(large)
    assert true_device_ms(large)[0] > 8 * TRUE_MS.max()
    assert errors_pct(physical, true_device_ms(large))[0] < 6
    assert errors_pct(model.predict(large), true_device_ms(large))[0] < 10


def test_a_negative_remainder_stays_negative() -> None:
    overlapping_ms = 0.9 * TABLE.convolution_ms
    model = IterationModel().fit(TABLE, overlapping_ms)
    predicted_ms = model.predict(TABLE)
    assert (predicted_ms < TABLE.convolution_ms).mean() > 0.9
    assert np.median(errors_pct(predicted_ms, overlapping_ms)) < 3


def test_trees_correct_what_the_sum_gets_wrong() -> None:
    crooked_ms = TRUE_MS * np.where(TABLE.batch_sizes >= 8, 1.2, 1.0)
    model = IterationModel().fit(TABLE, crooked_ms)
    physical = errors_pct(model.physical_.predict(TABLE), crooked_ms)
    corrected = errors_pct(model.predict(TABLE), crooked_ms)
    assert corrected.mean() < 0.75 * physical.mean()


def test_with_few_networks_the_physical_model_is_alone() -> None:
    few = TABLE.architectures < "net07"
    model = IterationModel().fit(TABLE.rows(few), TRUE_MS[few])
    assert model.booster_ is None
    assert model.booster_bytes() == b""
    assert model.predict(TABLE) == pytest.approx(model.physical_.predict(TABLE))


def test_one_network_is_enough_for_a_start() -> None:
    one = TABLE.architectures == "net03"
    model = IterationModel().fit(TABLE.rows(one), TRUE_MS[one])
    assert np.isfinite(model.predict(TABLE)).all()
    assert errors_pct(model.predict(TABLE.rows(one)), TRUE_MS[one]).max() < 12


def test_the_same_data_give_the_same_model() -> None:
    first = IterationModel().fit(TABLE, TRUE_MS)
    second = IterationModel().fit(TABLE, TRUE_MS)
    assert first.booster_bytes() == second.booster_bytes()
    assert first.to_state() == second.to_state()


def test_save_and_load_forecast_the_same() -> None:
    model = IterationModel().fit(TABLE, TRUE_MS * np.where(TABLE.batch_sizes > 2, 1.1, 1.0))
    loaded = IterationModel.from_state(model.to_state(), model.booster_bytes())
    assert loaded.predict(TABLE).tolist() == model.predict(TABLE).tolist()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda ms: np.where(np.arange(len(ms)) == 3, np.nan, ms), "positive finite"),
        (lambda ms: -ms, "positive finite"),
        (lambda ms: ms[:-1], "one iteration time is needed"),
    ],
)
@pytest.mark.parametrize("estimator", [PhysicalModel, IterationModel, PaperRemainder])
def test_bad_times_are_refused(estimator, spoil, message) -> None:
    with pytest.raises(ValueError, match=message):
        estimator().fit(TABLE, spoil(TRUE_MS))


def test_features_that_are_no_numbers_are_refused() -> None:
    values = TABLE.values.copy()
    values[0, 0] = np.inf
    spoilt = FeatureTable(TABLE.architectures, TABLE.families, TABLE.batch_sizes, values)
    with pytest.raises(ValueError, match="features must be finite"):
        IterationModel().fit(spoilt, TRUE_MS)


class TestHostBoundGpu:
    """Launches of 0.05 ms: at batch size 1 the host is the slower one, at 64 the device."""

    launch_ms = 0.05
    table = make_table(NETWORKS, batch_sizes=(1, 2, 8, 32, 64), speed=50)
    device_ms = true_device_ms(table, speed=50)
    host_ms = launch_ms * table.column("host_operations")
    true_ms = smooth_maximum(host_ms, device_ms)

    def test_the_launch_is_found(self) -> None:
        model = PhysicalModel(DeviceKind.CUDA, noise=0.02).fit(self.table, self.true_ms)
        assert model.launch_ms_ == pytest.approx(self.launch_ms, rel=0.15)
        assert np.median(errors_pct(model.predict(self.table), self.true_ms)) < 3

    def test_small_batches_are_bound_by_the_host_and_large_ones_by_the_device(self) -> None:
        model = IterationModel(DeviceKind.CUDA).fit(self.table, self.true_ms)
        bound = model.is_host_bound(self.table)
        truth = self.host_ms > self.device_ms
        assert truth.any() and not truth.all()
        assert (bound == truth).mean() > 0.85

    def test_a_plain_sum_would_overstate_small_batches(self) -> None:
        small = self.table.batch_sizes == 1
        as_sum = (self.host_ms + self.device_ms)[small]
        model = IterationModel(DeviceKind.CUDA).fit(self.table, self.true_ms)
        mine = errors_pct(model.predict(self.table)[small], self.true_ms[small])
        assert mine.mean() < errors_pct(as_sum, self.true_ms[small]).mean()

    def test_its_state_survives(self) -> None:
        model = IterationModel(DeviceKind.CUDA).fit(self.table, self.true_ms)
        loaded = IterationModel.from_state(model.to_state(), model.booster_bytes())
        assert loaded.predict(self.table).tolist() == model.predict(self.table).tolist()
        assert loaded.is_host_bound(self.table).tolist() == model.is_host_bound(self.table).tolist()
