from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from benchmarking.specs import Optimizer, Precision
from regression.memory import Fits, MemoryModel
from regression.tests.estimator.specimens import CPU, VOLTA, small_network

MIB = 2.0**20
BARE = MemoryModel(
    context_mib=0.0, transient_share=0.0, fragmentation=0.0, largest_workspace_mib=0.0
)
NETWORK = small_network(
    parameters=1_000_000,
    saved_bytes_per_example=10 * MIB,
    saved_bytes_fixed=MIB,
    saved_bytes_amp_per_example=5 * MIB,
    saved_bytes_amp_fixed=2 * MIB,
)
IMAGE_MIB = 4 * 3 * 224**2 / MIB


def _needed(
    model: MemoryModel,
    batch: int,
    optimizer: Optimizer = Optimizer.SGD,
    precision: Precision = Precision.FP32,
) -> float:
    return float(model.training_memory_mib(NETWORK, [batch], optimizer, precision, VOLTA)[0])


def test_weights_gradients_momentum_and_kept_bytes() -> None:
    expected = 3 * 4e6 / MIB + 8 * 10 + 1 + 8 * IMAGE_MIB
    assert _needed(BARE, 8) == pytest.approx(expected)


def test_adamw_keeps_one_more_tensor() -> None:
    more = _needed(BARE, 8, Optimizer.ADAMW) - _needed(BARE, 8)
    assert more == pytest.approx(4e6 / MIB)


def test_mixed_precision_keeps_what_autocast_keeps() -> None:
    expected = 3 * 4e6 / MIB + 8 * 5 + 2 + 8 * IMAGE_MIB
    assert _needed(BARE, 8, precision=Precision.AMP) == pytest.approx(expected)


def test_context_workspace_and_fragmentation_only_add() -> None:
    assert _needed(MemoryModel(), 8) > _needed(BARE, 8) * 1.05 + 400


def test_a_cpu_has_no_context_and_no_workspace() -> None:
    needed = MemoryModel(transient_share=0.0).training_memory_mib(
        NETWORK, [8], Optimizer.SGD, Precision.FP32, CPU
    )
    assert needed[0] == pytest.approx(_needed(BARE, 8))


def test_verdicts_have_an_unknown_zone_between() -> None:
    device = dataclasses.replace(VOLTA, usable_memory_mib=1000.0)
    verdict = BARE.verdict(NETWORK, [8, 90, 200], Optimizer.SGD, Precision.FP32, device)
    assert verdict.fits == (Fits.YES, Fits.UNKNOWN, Fits.NO)
    assert verdict.margin_mib.tolist() == pytest.approx((1000.0 - verdict.needed_mib).tolist())


def test_the_largest_batch_is_the_last_that_fits_for_sure() -> None:
    model = MemoryModel()
    device = dataclasses.replace(VOLTA, usable_memory_mib=4000.0)
    largest = model.largest_batch_that_fits(NETWORK, Optimizer.SGD, Precision.FP32, device)
    assert largest is not None
    verdict = model.verdict(NETWORK, [largest, largest + 1], Optimizer.SGD, Precision.FP32, device)
    assert verdict.fits == (Fits.YES, Fits.UNKNOWN)


def test_nothing_fits_on_a_tiny_device() -> None:
    device = dataclasses.replace(VOLTA, usable_memory_mib=10.0)
    assert BARE.largest_batch_that_fits(NETWORK, Optimizer.SGD, Precision.FP32, device) == 0


def test_unknown_memory_gives_no_verdict() -> None:
    device = dataclasses.replace(VOLTA, usable_memory_mib=None)
    verdict = BARE.verdict(NETWORK, [1, 2], Optimizer.SGD, Precision.FP32, device)
    assert verdict.fits == (Fits.UNKNOWN, Fits.UNKNOWN)
    assert np.isnan(verdict.margin_mib).all()
    assert BARE.largest_batch_that_fits(NETWORK, Optimizer.SGD, Precision.FP32, device) is None


def test_batch_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        BARE.training_memory_mib(NETWORK, [0], Optimizer.SGD, Precision.FP32, VOLTA)
