from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from benchmarking.specs import ConvolutionUse, OperationSpec, Optimizer, Phase, Precision
from regression.step_calibration import TERMS
from regression.step_rows import IterationWork, iteration_terms
from regression.step_terms import memory_group, network_terms
from regression.tests.estimator.specimens import AMPERE, BLOCK, DEPTHWISE, VOLTA, small_network


@pytest.mark.parametrize(
    ("name", "phase", "group"),
    [
        ("native_batch_norm", Phase.FORWARD, "norm"),
        ("native_batch_norm_backward", Phase.BACKWARD, "norm_backward"),
        ("max_pool2d_with_indices", Phase.FORWARD, "pool"),
        ("_adaptive_avg_pool2d_backward", Phase.BACKWARD, "pool_backward"),
        ("relu_", Phase.FORWARD, "elementwise"),
        ("cat", Phase.FORWARD, "copy"),
        ("addmm", Phase.FORWARD, None),
        ("convolution_backward", Phase.BACKWARD, None),
        ("view", Phase.FORWARD, None),
    ],
)
def test_kinds_of_traffic(name: str, phase: Phase, group: str | None) -> None:
    assert memory_group(OperationSpec(name, phase, 1, 1.0, 0.0)) == group


def test_totals_of_a_small_network() -> None:
    terms = network_terms(small_network(blocks=2))
    pixels = 64 * 56 * 56 * 4.0
    assert terms.memory_bytes["norm"] == (4 * pixels, 512.0)
    assert terms.group_bytes("elementwise", np.array([2.0]))[0] == 2 * (4 + 6) * pixels
    assert terms.matrix_multiply_adds == 1_536_000.0
    # 3 + 2 + 2 + 1 forward; 3 + 2 + 2 + 2 backward, of which a convolution is two kernels.
    assert (terms.forward_operations, terms.backward_operations) == (8, 9)
    assert terms.kernels == 8 + 9 + 3
    assert terms.view_operations == 1
    assert terms.parameter_bytes == 4_000_000.0


def test_biases_are_traffic_of_the_output() -> None:
    biased = dataclasses.replace(BLOCK, bias=True)
    network = small_network(convolutions=(ConvolutionUse(biased, 2), ConvolutionUse(BLOCK, 5)))
    assert network_terms(network).memory_bytes["bias"] == (2 * 3 * 4 * 64 * 56 * 56, 0.0)


def test_a_layer_used_with_and_without_input_gradient_is_one_layer() -> None:
    network = small_network(
        convolutions=(
            ConvolutionUse(BLOCK, 1, needs_input_gradient=False),
            ConvolutionUse(BLOCK, 3),
        )
    )
    terms = network_terms(network)
    assert len(terms.layers) == 1
    assert terms.pass_counts.tolist() == [[4, 3, 4]]


def _term(table: np.ndarray, name: str) -> float:
    return float(table[0, TERMS.index(name)])


def test_terms_are_milliseconds_at_peak_rates() -> None:
    terms = network_terms(small_network(blocks=2))
    work = IterationWork.forecast(Precision.FP32, Optimizer.SGD)
    layer_ms = np.ones((2, 1, 3))
    table = iteration_terms(VOLTA, terms, np.array([4.0]), Precision.FP32, layer_ms, work)
    assert _term(table, "convolution_forward_other") == 1.0
    assert _term(table, "convolution_backward_data_other") == 0.0
    assert _term(table, "convolution_backward_data_3x3") == 2.0
    pixels = 64 * 56 * 56 * 4.0
    assert _term(table, "norm") == pytest.approx(1e-6 * (4 * 4 * pixels + 512) / 900)
    assert _term(table, "optimizer") == pytest.approx(1e-6 * 5 * 4e6 / 900)
    assert _term(table, "host_to_device") == 0.0


def test_mixed_precision_halves_traffic_and_casts_weights() -> None:
    terms = network_terms(small_network())
    layer_ms = np.ones((2, 1, 3))
    tables = [
        iteration_terms(
            AMPERE,
            terms,
            np.array([4.0]),
            precision,
            layer_ms,
            IterationWork.forecast(precision, Optimizer.SGD),
        )
        for precision in (Precision.TF32, Precision.AMP)
    ]
    assert _term(tables[1], "norm") == pytest.approx(_term(tables[0], "norm") / 2)
    assert _term(tables[1], "optimizer") == pytest.approx(_term(tables[0], "optimizer") * 8 / 5)


def test_adamw_moves_more_than_sgd() -> None:
    terms = network_terms(small_network())
    optimizer = [
        _term(
            iteration_terms(
                VOLTA,
                terms,
                np.array([4.0]),
                Precision.FP32,
                np.ones((2, 1, 3)),
                IterationWork.forecast(Precision.FP32, each),
            ),
            "optimizer",
        )
        for each in (Optimizer.SGD, Optimizer.ADAMW)
    ]
    assert optimizer[1] == pytest.approx(optimizer[0] * 7 / 5)


def test_depthwise_layers_are_traffic_not_layer_times() -> None:
    network = small_network(convolutions=(ConvolutionUse(DEPTHWISE, 2),))
    terms = network_terms(network)
    work = IterationWork.forecast(Precision.FP32, Optimizer.SGD)
    table = iteration_terms(
        VOLTA, terms, np.array([16.0]), Precision.FP32, np.full((1, 1, 3), 99.0), work
    )
    elements = 2 * 16 * DEPTHWISE.input_elements + DEPTHWISE.weight_elements
    assert _term(table, "depthwise_forward") == pytest.approx(2 * 1e-6 * 4 * elements / 900)
    assert _term(table, "convolution_forward_3x3") == 0.0
