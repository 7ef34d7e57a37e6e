"""Figures: that plotly takes them, and that they show what the rows say."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise

import pytest

from benchmarking.models import Architecture
from predictions import curves
from predictions.cards import make_answers
from predictions.chart_layout import DURATION_TICKS, round_ticks
from predictions.charts import make_charts, make_legend
from predictions.forecast import make_forecast
from predictions.query import ForecastQuery
from predictions.tests.fakes import fake_curve


def charts_of(ask, **parameters):
    forecast = make_forecast(ask(**parameters))
    return forecast, make_charts(forecast, make_answers(forecast))


def coloured(figure: dict) -> dict:
    """The figure as the browser sees it, colours in place of tokens."""
    return json.loads(re.sub(r'"@[^"]+"', '"#123456"', json.dumps(figure)))


@pytest.fixture
def compared(ask):
    return charts_of(ask, architecture=["resnet50", "mobilenet_v2"], epochs="90",
                     machine=["reference-cpu", "aws-g4dn.xlarge", "gcp-unpriced"],
                     batch_sizes="1,2,16,128,256")  # fmt: skip


def test_plotly_accepts_every_figure(compared):
    import plotly.graph_objects as go

    _, charts = compared
    assert [chart.slug for chart in charts] == ["epoch-time", "cost", "time-cost"]
    for chart in charts:
        go.Figure(coloured(chart.figure))


def test_u5_the_points_of_a_curve_are_those_of_the_rows(compared):
    forecast, (epoch_time, *_) = compared
    points = [trace for trace in epoch_time.figure["data"] if "text" in trace]
    assert len(points) == 6
    for trace, series in zip(points, forecast.series):
        assert trace["x"] == [row.batch_size for row in series.answered]
        assert trace["y"] == pytest.approx([row.epoch_seconds for row in series.answered], rel=1e-4)
    lines = [trace for trace in epoch_time.figure["data"] if trace["mode"] == "lines"]
    assert lines
    assert all("shape" not in trace["line"] for trace in lines)  # straight, never a spline


def test_u8_shape_says_the_source_and_hollow_that_it_does_not_fit(compared):
    _, (epoch_time, *_) = compared
    symbols = [t["marker"]["symbol"] for t in epoch_time.figure["data"] if "text" in t]
    assert symbols[0] == ["circle", "circle", "circle", "diamond-open", "diamond-open"]
    assert symbols[1] == ["triangle-up"] * 4 + ["triangle-up-open"]
    lines = [t for t in epoch_time.figure["data"] if t["mode"] == "lines" and "fill" not in t]
    assert [(t["name"], t["line"]["dash"]) for t in lines][:2] == [
        ("resnet50 · reference-cpu", "solid"),
        ("resnet50 · aws-g4dn.xlarge", "dash"),
    ]


def test_an_unpriced_machine_has_no_place_in_the_cost_charts(compared):
    _, (_, cost, _) = compared
    names = {trace["name"] for trace in cost.figure["data"] if "text" in trace}
    assert names == {
        f"{cnn} · {machine}"
        for cnn in ("resnet50", "mobilenet_v2")
        for machine in ("reference-cpu", "aws-g4dn.xlarge")
    }


def test_u5_a_ring_marks_what_wins(compared):
    forecast, (epoch_time, cost, _) = compared
    for chart, position, key in ((epoch_time, 0, "epoch_seconds"), (cost, 1, "total_cost_usd")):
        ring = chart.figure["data"][-1]
        winners = [answer.cards[position].row for answer in make_answers(forecast)]
        assert ring["x"] == [row.batch_size for row in winners]
        assert ring["y"] == pytest.approx([getattr(row, key) for row in winners], rel=1e-4)


def test_u8_only_the_estimated_part_of_a_line_is_dashed(ask, monkeypatch):
    def partly(architecture, place, precision, optimizer, batch_sizes):
        curve = fake_curve(architecture, place, precision, optimizer, batch_sizes)
        sources = ["measured" if size <= 16 else "estimated" for size in batch_sizes]
        return replace(curve, sources=sources)

    monkeypatch.setattr(curves, "compute_curve", partly)
    _, (chart, *_) = charts_of(
        ask, architecture="resnet50", machine="reference-cpu", batch_sizes="4,8,16,24,32"
    )
    lines = [t for t in chart.figure["data"] if t["mode"] == "lines" and "fill" not in t]
    assert [(t["x"], t["line"]["dash"]) for t in lines] == [
        ([4, 8, 16], "solid"),
        ([16, 24, 32], "dash"),
    ]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (
            3 * 3600,
            7 * 3600,
            [3 * 3600, 4 * 3600, 5 * 3600, 6 * 3600, 7 * 3600, 8 * 3600, 9 * 3600],
        ),
        (60, 6000, [60, 120, 300, 600, 1200, 1800, 3600, 7200]),
    ],
)
def test_every_axis_has_enough_ticks(low, high, ticks):
    assert round_ticks(low, high, DURATION_TICKS) == ticks


def test_u5_memory_ends_at_a_dotted_line(ask):
    _, (chart, *_) = charts_of(ask, architecture="resnet50", machine="aws-g4dn.xlarge")
    assert [shape["x0"] for shape in chart.figure["layout"]["shapes"]] == [128]


def test_u8_every_chart_has_a_title_and_a_summary_in_words(compared):
    _, charts = compared
    assert [chart.title for chart in charts] == [
        "Epoch time over batch size",
        "Cost over batch size",
        "Time against cost",
    ]
    assert charts[0].summary.startswith("6 curves; lower is faster. resnet50 is fastest on ")


def test_labels_beside_the_lines_do_not_overlap(compared):
    _, (chart, *_) = compared
    heights = sorted(label["y"] for label in chart.figure["layout"]["annotations"])
    assert len(heights) == 6
    assert min(b - a for a, b in pairwise(heights)) > 0.01


def test_the_legend_names_every_curve(compared):
    forecast, _ = compared
    assert [(entry.colour, entry.name, entry.dashed) for entry in make_legend(forecast)][:3] == [
        (1, "resnet50 · reference-cpu", False),
        (2, "resnet50 · aws-g4dn.xlarge", True),
        (3, "resnet50 · gcp-unpriced", True),
    ]


def test_no_answer_means_no_chart(ask):
    _, charts = charts_of(ask, architecture="resnet50", machine="aws-g4dn.xlarge", precision="tf32")
    assert charts == []


def test_a_long_name_is_cut_at_the_end_of_its_line_and_whole_in_the_legend(ask, catalogue):
    Architecture.objects.filter(slug="mobilenet_v2").update(slug="own-AbCdEfGhIjKlMnOpQrStUv")
    forecast = make_forecast(
        ForecastQuery(("own-AbCdEfGhIjKlMnOpQrStUv", "resnet50"), ("aws-g4dn.xlarge",))
    )
    charts = make_charts(forecast, make_answers(forecast))
    layout = charts[0].figure["layout"]
    labels = {label["text"] for label in layout["annotations"]}
    assert labels == {"own-AbCdEfGhIjKlMnO\N{HORIZONTAL ELLIPSIS}", "resnet50"}
    assert layout["margin"]["r"] >= 7 * max(map(len, labels))
    assert make_legend(forecast)[0].name == "own-AbCdEfGhIjKlMnOpQrStUv"


def test_u11_margins_follow_from_the_ticks_so_that_a_figure_is_drawn_once(compared):
    _, charts = compared
    for chart in charts:
        layout = chart.figure["layout"]
        assert (layout["xaxis"]["automargin"], layout["yaxis"]["automargin"]) == (False, False)
        assert layout["margin"]["l"] > 7 * max(map(len, layout["yaxis"]["ticktext"]))
