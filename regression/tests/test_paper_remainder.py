"""The original's method, as the baseline that it is."""

from __future__ import annotations

import numpy as np
import pytest

from regression.features import COLUMNS, FeatureTable
from regression.paper_remainder import PaperRemainder
from regression.tests.synthetic import (
    errors_pct,
    make_network,
    make_networks,
    make_table,
    true_device_ms,
)

TABLE = make_table(make_networks(24))
TRUE_MS = true_device_ms(TABLE)


def test_plain_trees_do_not_extrapolate() -> None:
    large = make_table([make_network("large", seed=99, depth=40)], batch_sizes=(64,))
    paper = PaperRemainder().fit(TABLE, TRUE_MS)
    assert paper.predict(large)[0] - large.convolution_ms[0] <= 1.2 * np.max(
        TRUE_MS - TABLE.convolution_ms
    )


def test_the_papers_method_adds_a_learnt_remainder_to_the_convolutions() -> None:
    paper = PaperRemainder().fit(TABLE, TRUE_MS)
    assert np.median(errors_pct(paper.predict(TABLE), TRUE_MS)) < 2
    is_convolution = np.array([name.endswith("_convolution_ms") for name in COLUMNS])
    slower = FeatureTable(
        TABLE.architectures,
        TABLE.families,
        TABLE.batch_sizes,
        TABLE.values * np.where(is_convolution, 3.0, 1.0),
    )
    added_ms = paper.predict(slower) - paper.predict(TABLE)
    assert added_ms == pytest.approx(2 * TABLE.convolution_ms)
