"""The sum over layers, passes and counts, and what it says when timings are missing."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarking.specs import ConvolutionSpec, ConvolutionUse, Pass
from regression.convolution import (
    ConvolutionKind,
    busy_ms_per_mega_multiply_add,
    complete_sums,
    convolution_kind,
    sum_convolutions,
)
from regression.tests.synthetic import (
    MS_PER_MEGA_MULTIPLY_ADD,
    make_layer_times,
    make_network,
    make_networks,
)

FIRST = ConvolutionSpec(3, 8, 8, 4, 3, 3)
DEPTHWISE = ConvolutionSpec(4, 6, 6, 4, 3, 3, groups=4)
NETWORK = dataclasses.replace(
    make_network("two", seed=1),
    convolutions=(
        ConvolutionUse(FIRST, count=1, needs_input_gradient=False),
        ConvolutionUse(DEPTHWISE, count=3),
    ),
)
TIMES = {
    (FIRST.key, 2, Pass.FORWARD): 1.0,
    (FIRST.key, 2, Pass.BACKWARD_DATA): 1000.0,
    (FIRST.key, 2, Pass.BACKWARD_FILTER): 2.0,
    (DEPTHWISE.key, 2, Pass.FORWARD): 10.0,
    (DEPTHWISE.key, 2, Pass.BACKWARD_DATA): 20.0,
    (DEPTHWISE.key, 2, Pass.BACKWARD_FILTER): 30.0,
}


def test_it_counts_every_use_and_leaves_out_the_first_layers_input_gradient() -> None:
    total = sum_convolutions(NETWORK, 2, TIMES)
    assert total.milliseconds == 1 + 2 + 3 * (10 + 20 + 30)
    assert total.kind_ms[ConvolutionKind.DEPTHWISE] == 180
    assert total.kind_ms[ConvolutionKind.DENSE] == 3
    assert total.is_complete
    assert total.measured_share == 1.0


def test_what_is_missing_is_listed_and_estimated_apart() -> None:
    times = {key: value for key, value in TIMES.items() if key[2] is not Pass.BACKWARD_DATA}
    total = sum_convolutions(NETWORK, 2, times, fallback=lambda layer, size, operation: 5.0 * size)
    assert total.missing == ((DEPTHWISE, Pass.BACKWARD_DATA),)
    assert total.milliseconds == 3 + 3 * (10 + 30) + 3 * 10
    assert total.estimated_ms == 30
    assert total.measured_share == pytest.approx(123 / 153)
    assert total.missing_layers == 1


def test_without_a_fallback_a_missing_pass_counts_nothing() -> None:
    total = sum_convolutions(NETWORK, 4, TIMES)
    assert total.milliseconds == 0
    assert total.measured_share == 0
    assert total.missing_layers == 2


def test_complete_sums_leaves_out_batch_sizes_with_gaps() -> None:
    times = {**TIMES, (FIRST.key, 4, Pass.FORWARD): 9.0}
    assert [each.batch_size for each in complete_sums(NETWORK, [4, 2, 2], times)] == [2]


@pytest.mark.parametrize(
    ("layer", "kind"),
    [
        (FIRST, ConvolutionKind.DENSE),
        (DEPTHWISE, ConvolutionKind.DEPTHWISE),
        (ConvolutionSpec(8, 6, 6, 8, 3, 3, groups=2), ConvolutionKind.GROUPED),
        (ConvolutionSpec(8, 6, 6, 8, 1, 1), ConvolutionKind.POINTWISE),
        (ConvolutionSpec(8, 6, 6, 8, 1, 7), ConvolutionKind.DENSE),
    ],
)
def test_kinds(layer: ConvolutionSpec, kind: ConvolutionKind) -> None:
    assert convolution_kind(layer) is kind


def test_the_busy_rate_is_that_of_the_larger_layers() -> None:
    networks = make_networks(3)
    times = make_layer_times(networks)
    smallest = min(times, key=lambda key: times[key])
    times[smallest] *= 50  # a launch's time on a tiny layer says nothing about the rate
    rate = busy_ms_per_mega_multiply_add(networks, times)
    assert rate == pytest.approx(MS_PER_MEGA_MULTIPLY_ADD)


def test_without_timings_there_is_no_rate() -> None:
    assert busy_ms_per_mega_multiply_add(make_networks(1), {}) is None
