from __future__ import annotations

import numpy as np
import pytest

from benchmarking.specs import DeviceKind, DeviceSpec, Precision
from regression.layer_features import (
    FEATURE_NAMES,
    LayerTable,
    Rates,
    concatenate_layers,
    distinct_layers,
    layer_features,
    matrix_product,
)
from regression.tests.estimator.specimens import AMPERE, BLOCK, DEPTHWISE, STEM, VOLTA


def test_matrix_product_of_each_pass() -> None:
    layers = LayerTable.from_specs([BLOCK] * 3, [16, 16, 16])
    m, n, k = matrix_product(layers, np.array([0, 1, 2]))
    pixels = 16 * 56 * 56
    assert m.tolist() == [pixels, pixels, 64]
    assert n.tolist() == [64, 64, 64 * 9]
    assert k.tolist() == [64 * 9, 64 * 9, pixels]


def test_groups_divide_the_matrix_product() -> None:
    layers = LayerTable.from_specs([DEPTHWISE], [4])
    m, n, k = matrix_product(layers, np.array([0]))
    assert (m[0], n[0], k[0]) == (4 * 56 * 56, 1, 9)


def test_roofline_is_the_larger_of_arithmetic_and_traffic() -> None:
    layers = LayerTable.from_specs([BLOCK, DEPTHWISE], [16, 16])
    compute, traffic = Rates.of(VOLTA, Precision.FP32).roofline_ms(layers)
    assert compute == pytest.approx(2e-9 * 16 * BLOCK.multiply_adds / 15.7)
    elements = 2 * 16 * DEPTHWISE.input_elements + DEPTHWISE.weight_elements
    assert traffic == pytest.approx(1e-6 * 4 * elements / 900)


def test_mixed_precision_halves_bytes_and_uses_tensor_cores() -> None:
    rates = Rates.of(VOLTA, Precision.AMP)
    assert (rates.peak_tflops, rates.element_bytes, rates.arithmetic) == (125.0, 2.0, 2)


def test_mixed_precision_without_tensor_cores_only_halves_bytes() -> None:
    pascal = DeviceSpec("p", DeviceKind.CUDA, 1.0, 9.3, 732.0, compute_capability=6.0)
    rates = Rates.of(pascal, Precision.AMP)
    assert (rates.peak_tflops, rates.element_bytes, rates.arithmetic) == (9.3, 2.0, 3)


def test_tf32_is_refused_where_a_device_has_none() -> None:
    with pytest.raises(ValueError, match="volta has no tf32; it has fp32, amp"):
        Rates.of(VOLTA, Precision.TF32)
    assert Rates.of(AMPERE, Precision.TF32).peak_tflops == 156.0


def test_a_device_without_rates_is_refused() -> None:
    with pytest.raises(ValueError, match="memory bandwidth"):
        Rates.of(DeviceSpec("x", DeviceKind.CUDA, 1.0, 10.0, None), Precision.FP32)


def test_features_are_finite_and_named() -> None:
    layers = LayerTable.from_specs([STEM, BLOCK, DEPTHWISE], [1, 16, 256])
    features = layer_features(VOLTA, layers, np.array([0, 1, 2]), Precision.FP32, source=0)
    assert features.shape == (3, len(FEATURE_NAMES))
    assert np.isfinite(features).all()


def test_crossing_layers_with_batch_sizes_keeps_order() -> None:
    layers = LayerTable.from_specs([STEM, BLOCK], [1, 1]).crossed_with(np.array([2.0, 8.0]))
    assert layers.batch.tolist() == [2, 8, 2, 8]
    assert layers.in_channels.tolist() == [3, 3, 64, 64]


def test_distinct_layers_point_back() -> None:
    table = concatenate_layers(
        [LayerTable.from_specs([STEM, BLOCK], [4, 4]), LayerTable.from_specs([BLOCK], [4])]
    )
    distinct, members = distinct_layers(table)
    assert len(distinct) == 2
    assert distinct.in_channels[members].tolist() == [3, 64, 64]


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="2 layers but 1 batch sizes"):
        LayerTable.from_specs([STEM, BLOCK], [1])
