"""What measuring would take, where a machine has no timings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarking.tests.factories import TINY_USES
from predictions.forecast import make_forecast
from predictions.measuring import (
    Effort,
    LayerCounts,
    count_layers,
    measuring_effort,
    measuring_sentence,
)

LAYERS = LayerCounts(different=20, calls=50)


@pytest.fixture
def series(ask):
    def make(machine: str, architecture: str = "resnet50"):
        (one,) = make_forecast(ask(architecture=architecture, machine=machine)).series
        return one, {one.architecture.pk: LAYERS}

    return make


def test_u4_where_nothing_is_measured_the_layers_the_minutes_and_the_dollars_are_said(series):
    one, layers = series("aws-g4dn.xlarge")
    effort = measuring_effort(one, layers)
    # Ten repeats and three to warm up, of each batch size that fits and of one more.
    times = dict(zip(one.curve.points["batch_sizes"], one.curve.points["iteration_ms"]))
    usual = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192)
    sizes = [size for size in usual if size <= 1.25 * one.largest_batch]
    iterations = 13 * sum(times[size] for size in sizes) / 1000
    layer_work = iterations * 0.8 * 20 / 50
    booting = 240
    expected = booting + iterations + layer_work + 0.05 * len(sizes) * 21 + 1
    assert effort.seconds == pytest.approx(expected)
    assert effort.usd == pytest.approx(expected / 3600 * 0.526)
    assert measuring_sentence(one, layers) == (
        f"not measured: 20 layers are missing, measuring them takes {effort}"
    )


@pytest.mark.parametrize("machine", ["reference-cpu", "aws-old.xlarge"])
def test_where_timings_are_or_nobody_can_measure_nothing_is_said(series, machine):
    assert measuring_sentence(*series(machine)) == ""


def test_a_device_alone_cannot_be_rented(ask):
    (one,) = make_forecast(ask(architecture="resnet50", device="t4")).series
    assert measuring_sentence(one, {one.architecture.pk: LAYERS}) == ""


def test_what_is_measured_already_is_not_measured_again(series):
    one, layers = series("aws-g4dn.xlarge")
    half = replace(one, rows=tuple(replace(row, measured_share=0.5) for row in one.rows))
    effort = measuring_effort(half, layers)
    assert effort.seconds < measuring_effort(one, layers).seconds
    assert measuring_sentence(half, layers) == (
        f"50 % of its convolutions are measured; the rest takes {effort}"
    )


def test_of_a_network_that_the_probe_cannot_build_only_layers_are_timed(series):
    one, layers = series("aws-g4dn.xlarge")
    whole = measuring_effort(one, layers)
    one.architecture.source = "upload"
    booting = 240
    assert measuring_effort(one, layers).seconds - booting < (whole.seconds - booting) / 2


def test_only_a_machine_that_is_launched_boots_first(series):
    assert not measuring_effort(*series("gcp-unpriced")).seconds > 240
    assert measuring_effort(*series("aws-g4dn.xlarge")).seconds > 240


def test_without_a_price_only_the_time_is_said(series):
    assert measuring_effort(*series("gcp-unpriced")).usd is None


@pytest.mark.parametrize(
    ("effort", "text"),
    [
        (Effort(12.0, 0.0004), "about 1 min and $0.01"),
        (Effort(61.0, 0.123), "about 2 min and $0.13"),
        (Effort(9000.0, 31.5), "about 3 h and $31.50"),
        (Effort(300.0, None), "about 5 min"),
    ],
)
def test_an_effort_is_rounded_up(effort, text):
    assert str(effort) == text


def test_layers_of_every_cnn_are_counted_in_one_query(ask, django_assert_num_queries):
    query = ask(architecture=["resnet50", "mobilenet_v2"], machine="aws-g4dn.xlarge")
    forecast = make_forecast(query)
    with django_assert_num_queries(1):
        counts = count_layers(forecast.series)
    different = len({use.layer for use in TINY_USES})
    calls = sum(use.count for use in TINY_USES)
    assert list(counts.values()) == [LayerCounts(different, calls)] * 2
