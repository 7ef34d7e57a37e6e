"""The example on the page that explains the words."""

from __future__ import annotations

import pytest

from benchmarking.models import Price
from predictions.worked_example import make_worked_example


def test_each_step_follows_from_the_one_before(catalogue):
    example = make_worked_example()
    row = example.row
    assert (row.architecture, row.machine, row.batch_size) == ("resnet50", "aws-g4dn.xlarge", 32)
    assert example.iterations == 40_037
    assert row.epoch_seconds == pytest.approx(example.iterations * row.iteration_ms / 1000)
    assert row.total_seconds == pytest.approx(example.epochs * row.epoch_seconds)
    assert row.total_cost_usd == pytest.approx(row.total_seconds / 3600 * 0.526)
    assert (example.hourly, example.price_label) == ("$0.526", "on demand")
    assert example.path == "/?architecture=resnet50&machine=aws-g4dn.xlarge&epochs=90"


def test_without_a_price_or_without_anything_there_is_no_example(catalogue):
    Price.objects.all().delete()
    assert make_worked_example() is None


def test_an_empty_site_has_none(db):
    assert make_worked_example() is None
