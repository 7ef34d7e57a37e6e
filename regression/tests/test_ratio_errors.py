"""Ratios of batch sizes: what two errors have in common cancels."""

from __future__ import annotations

import pytest

from regression.ratio_errors import FEWEST_PAIRS, ratio_errors


def test_an_error_that_all_batch_sizes_share_is_none() -> None:
    curves = [{1: 0.5, 2: 0.5, 4: 0.5}] * FEWEST_PAIRS
    assert ratio_errors(curves) == [
        {"doublings": 1, "pairs": 2 * FEWEST_PAIRS, "p80": 0.0},
        {"doublings": 2, "pairs": FEWEST_PAIRS, "p80": 0.0},
    ]


def test_what_grows_with_the_distance_is_the_quantile_of_its_distance() -> None:
    curves = [{8: 0.0, 16: slope, 32: 2 * slope} for slope in (0.1,) * 79 + (-0.3,) * 21]
    one, two = ratio_errors(curves)
    assert (one["doublings"], one["p80"]) == (1, pytest.approx(0.3))
    assert (two["doublings"], two["p80"]) == (2, pytest.approx(0.6))


def test_neighbours_less_than_a_doubling_apart_count_as_one_and_few_pairs_say_nothing() -> None:
    curves = [{24: 0.1, 32: 0.3, 512: 0.3}] * FEWEST_PAIRS
    assert [row["doublings"] for row in ratio_errors(curves)] == [1, 4]
    assert ratio_errors(curves[:9]) == []
