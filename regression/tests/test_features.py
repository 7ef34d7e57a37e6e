"""Traced operations become the columns that the models learn from."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from benchmarking.specs import (
    ConvolutionSpec,
    ConvolutionUse,
    OperationSpec,
    Optimizer,
    Pass,
    Phase,
)
from regression.convolution import sum_convolutions
from regression.features import (
    ADAMW_TRAFFIC,
    COLUMNS,
    LARGE_TENSOR_BYTES,
    FeatureTable,
    feature_table,
    operation_group,
)
from regression.tests.synthetic import make_network

LAYER = ConvolutionSpec(3, 64, 64, 64, 3, 3, padding_height=1, padding_width=1)
NETWORK = dataclasses.replace(
    make_network("one", seed=3),
    convolutions=(ConvolutionUse(LAYER, count=1, needs_input_gradient=False),),
    operations=(
        OperationSpec("convolution", Phase.FORWARD, 1, 5e6, 1e6, 7e6),
        OperationSpec("relu_", Phase.FORWARD, 2, 3e6, 0.0),
        OperationSpec("native_batch_norm", Phase.FORWARD, 2, 2e6, 1e6),
        OperationSpec("addmm", Phase.FORWARD, 1, 1e6, 8e6, 4e6),
        OperationSpec("view", Phase.FORWARD, 5, 0.0, 0.0),
        OperationSpec("add_", Phase.OPTIMIZER, 4, 0.0, 11e6),
    ),
)


def table(*batch_sizes: int, optimizer: Optimizer = Optimizer.SGD) -> FeatureTable:
    times = {(LAYER.key, size, each): 1.0 * size for size in batch_sizes for each in Pass}
    sums = [sum_convolutions(NETWORK, size, times) for size in batch_sizes]
    return feature_table(NETWORK, sums, optimizer)


def test_bytes_are_per_example_and_fixed_in_megabytes() -> None:
    rows = table(1, 4)
    assert rows.column("activation").tolist() == [3.0, 12.0]
    assert rows.column("norm").tolist() == [3.0, 9.0]
    assert rows.column("matmul").tolist() == [9.0, 12.0]
    assert rows.column("matmul_weights").tolist() == [8.0, 8.0]
    assert rows.column("matmul_mega_multiply_adds").tolist() == [4.0, 16.0]
    assert rows.column("optimizer").tolist() == [11.0, 11.0]


def test_convolutions_are_times_and_not_bytes() -> None:
    rows = table(1, 4)
    assert rows.convolution_ms.tolist() == [2.0, 8.0]
    assert rows.column("dense_convolution_ms").tolist() == [2.0, 8.0]
    assert rows.column("elementwise").tolist() == [0.0, 0.0]


def test_views_are_launched_by_nobody_and_convolutions_only_by_the_host() -> None:
    assert table(1).column("operations").tolist() == [9.0]
    assert table(1).column("host_operations").tolist() == [10.0]


def test_adamw_moves_more_in_the_optimizer_and_nothing_else() -> None:
    sgd, adamw = table(1), table(1, optimizer=Optimizer.ADAMW)
    changed = [name for name in COLUMNS if sgd.column(name)[0] != adamw.column(name)[0]]
    assert changed == ["optimizer"]
    assert adamw.column("optimizer")[0] == pytest.approx(11 * ADAMW_TRAFFIC)


def test_large_tensors_begin_where_the_allocator_maps_anew() -> None:
    threshold = LARGE_TENSOR_BYTES // (4 * LAYER.output_elements)
    rows = table(threshold, threshold + 1)
    small, large = rows.column("large_tensors")
    output_share = LAYER.output_elements / (LAYER.output_elements + LAYER.input_elements)
    assert small == 0
    assert large == pytest.approx(output_share * rows.column("saved")[1])


@pytest.mark.parametrize(
    ("name", "phase", "group"),
    [
        ("relu_", Phase.FORWARD, "activation"),
        ("silu_", Phase.FORWARD, "smooth_activation"),
        ("gelu_backward", Phase.BACKWARD, "smooth_activation"),
        ("native_layer_norm", Phase.FORWARD, "norm"),
        ("native_batch_norm_backward", Phase.BACKWARD, "norm_backward"),
        ("max_pool2d_with_indices_backward", Phase.BACKWARD, "pool_backward"),
        ("cat", Phase.FORWARD, "copy"),
        ("mm", Phase.BACKWARD, "matmul"),
        ("mul", Phase.BACKWARD, "elementwise"),
        ("an_operation_of_tomorrow", Phase.FORWARD, "elementwise"),
        ("add_", Phase.OPTIMIZER, "optimizer"),
        ("convolution_backward", Phase.BACKWARD, None),
        ("detach", Phase.BACKWARD, None),
    ],
)
def test_groups(name: str, phase: Phase, group: str | None) -> None:
    assert operation_group(OperationSpec(name, phase, 1, 1.0, 0.0)) == group


def test_a_network_without_sums_gives_an_empty_table() -> None:
    rows = feature_table(NETWORK, [])
    assert rows.values.shape == (0, len(COLUMNS))


def test_joining_no_tables_is_an_error() -> None:
    with pytest.raises(ValueError, match="no feature rows"):
        FeatureTable.concatenate([])


def test_rows_keeps_names_and_values_together() -> None:
    rows = FeatureTable.concatenate([table(1, 2), table(4)])
    chosen = rows.rows(np.array([False, False, True]))
    assert chosen.batch_sizes.tolist() == [4.0]
    assert chosen.architectures.tolist() == ["one"]
