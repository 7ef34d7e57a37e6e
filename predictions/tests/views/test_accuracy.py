"""The accuracy page: every figure comes from what is stored, under the source it belongs to."""

from __future__ import annotations

import html
import json
import re

import pytest
from django.template.defaultfilters import floatformat

from predictions import public_accuracy
from predictions.accuracy import machine_accuracies
from predictions.accuracy_charts import make_accuracy_charts, make_accuracy_hover_texts
from predictions.display import EN_DASH
from predictions.table_cells import source_badge
from predictions.tests.evaluations import store_evaluation
from regression.sources import Source
from regression.stored_reports import stored_estimator_report


def figures(median: float, p90: float, bias: float = 0.0) -> dict[str, float]:
    return {"mape": median + 1, "median": median, "p90": p90, "bias": bias}


def row(group: str, name: str, precision: str, median: float, coverage: float) -> dict:
    return {
        "group": group,
        "name": name,
        "precision": precision,
        "cnns": 7,
        "points": 131,
        **figures(median, 3 * median, -5.4),
        "coverage": coverage,
        "median_relative_width": 0.53,
        "baselines": {"flops_over_peak": figures(85.7, 300, 59)},
    }


PUBLIC = {
    "model_version": "estimator-0123abcd",
    "nominal_coverage": 0.8,
    "splits": [
        {
            "left_out": "networks",
            "rows": [
                row("all", "all", "all", 9.1, 0.88),
                row("device", "t4", "fp32", 7.6, 0.97),
                row("family", "vgg", "all", 6.8, 0.9),
            ],
        },
        {
            "left_out": "devices",
            "rows": [
                row("all", "all", "all", 17.9, 0.79),
                row("device", "t4", "fp32", 30.6, 0.23),
                row("device", "unlisted-gpu", "amp", 21.6, 0.8),
            ],
        },
    ],
}


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_accuracy, "stored_estimator_report", lambda: PUBLIC)


@pytest.fixture
def evaluated(catalogue) -> None:
    store_evaluation(catalogue["reference-cpu"])


def sections(response) -> dict[str, str]:
    """The page's text by the source that a section is about; ``""`` before the first."""
    text = html.unescape(response.content.decode()).replace("\xa0", " ")
    parts = re.split(r'<section class="panel" id="([\w-]+)"', text)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def cells(section: str, title: str) -> list[str]:
    """The cells of the line with that title, without markup."""
    (line,) = [
        line
        for line in re.findall(r"<tr.*?</tr>", section, re.DOTALL)
        if re.search(rf'<th scope="row">{re.escape(title)}\s*<', line)
    ]
    return [re.sub(r"<[^>]+>", " ", cell).strip() for cell in re.findall("<td.*?</td>", line)]


def test_every_badge_leads_to_a_section_of_its_own(db, client):
    page = sections(client.get("/accuracy/"))
    for source in Source:
        (anchor,) = re.findall(r'href="/accuracy/#([\w-]+)"', source_badge(source))
        assert source_badge(source) in page[anchor]


def test_nothing_evaluated_yet(db, client, monkeypatch):
    monkeypatch.setattr(public_accuracy, "stored_estimator_report", lambda: None)
    page = sections(client.get("/accuracy/"))
    assert "Nothing is evaluated yet." in page[""]
    assert "no evaluation of such estimates is stored" in page["estimated"]
    assert "<table" not in "".join(page.values())
    assert "plotly" not in "".join(page.values())


def test_the_figures_stand_under_their_source(evaluated, public, client):
    page = sections(client.get("/accuracy/"))
    assert cells(page["measured"], "single processes against all of them") == [
        "44", "600", "2.2 %", "20.3 %", "5.0 %", "81 % 60 to 95", "11 %"
    ]  # fmt: skip
    assert "varies by 1.3 %" in page["measured"]
    regressed = page["benchmark-regression"]
    assert cells(regressed, "CNN left out") == [
        "45", "270", "3.7 %", "11.8 %", "5.3 %", "78 % 67 to 91", "13 %"
    ]  # fmt: skip
    assert cells(regressed, "its whole family left out") == [
        "45", "270", "5.0 %", "14.0 %", "6.6 %", "", ""
    ]  # fmt: skip
    assert cells(regressed, "CNN left out, the original system's method")[2:5] == [
        "12.3 %", "31.4 %", "16.2 %"
    ]  # fmt: skip
    assert cells(page["interpolated"], "batch sizes held back between their neighbours")[2] == (
        "5.2 %"
    )
    assert cells(page["estimated"], "layers held back: the sum of a CNN's convolutions")[1] == "605"
    assert "model 1-abc, evaluated 2026-11-29" in regressed


def test_plain_words_come_first(evaluated, public, client):
    summary = " ".join(sections(client.get("/accuracy/"))[""].split())
    assert (
        "Of 100 forecasts, 50 are off by less than 3.7 % and 90 by less than 11.8 %. "
        "78 lie inside the interval that is meant to hold 80." in summary
    )
    assert (
        "Of 100 forecasts, 50 are off by less than 18 % and 90 by less than 54 %. "
        "79 lie inside the interval that is meant to hold 80." in summary
    )


def test_published_timings_are_figures_of_groups(catalogue, public, client):
    section = sections(client.get("/accuracy/"))["estimated"]
    assert "Model estimator-0123abcd" in section
    compared = section[: section.index("By family of CNNs")]
    assert cells(compared, "NVIDIA T4 FP32") == [
        "7", "131", "8 %", "23 %", "97 %", "31 %", "92 %", "23 %"
    ]  # fmt: skip
    assert cells(compared, "unlisted-gpu AMP") == [
        "7", "131", EN_DASH, "", "", "22 %", "65 %", "80 %"
    ]  # fmt: skip
    assert "NVIDIA T4 FP32 (23 of 100 inside, GPU left out)." in compared
    assert "97 of 100" not in compared
    assert cells(section, "Operations over peak rate") == [
        "the specification; scaled by other CNNs' median", "86 %", "300 %", "+59.0 %"
    ]  # fmt: skip
    every = section[section.index("Every figure, GPU left out") :]
    assert cells(every, "NVIDIA T4 FP32") == [
        "7", "131", "30.6", "91.8", "31.6", "-5.4", "23 %", "53 %", "85.7", EN_DASH, EN_DASH
    ]  # fmt: skip


def test_the_stored_report_of_estimates_is_what_is_shown(db, client):
    report = stored_estimator_report()
    section = sections(client.get("/accuracy/"))["estimated"]
    assert f"Model {report['model_version']}" in section
    everything = report["splits"][0]["rows"][0]
    assert cells(section[: section.index("By family")], "All")[:3] == [
        str(everything["cnns"]),
        str(everything["points"]),
        f"{floatformat(everything['median'], 0)} %",
    ]


def test_every_point_stands_in_a_table_too(evaluated, public, client):
    section = sections(client.get("/accuracy/"))["benchmark-regression"]
    assert "All 3 points of reference-cpu" in section
    assert cells(section, "alexnet") == ["20.0 %", "-20.0 % 50.0 ms → 40.0 ms", ""]
    assert cells(section, "resnet50") == [
        "3.0 %", "+5.0 % 100.0 ms → 105.0 ms", "-1.0 % 800 ms → 792 ms"
    ]  # fmt: skip
    assert section.index(">alexnet<") < section.index(">resnet50<")


def test_the_charts_hold_every_point(evaluated):
    machines = machine_accuracies()
    predicted, errors = make_accuracy_charts(machines)
    band, diagonal, markers = predicted.figure["data"]
    assert (markers["x"], markers["y"]) == ([0.1, 0.8, 0.05], [0.105, 0.792, 0.04])
    assert diagonal["x"] == diagonal["y"] == pytest.approx([0.032, 1.0])
    assert band["y"] == pytest.approx([0.0352, 1.1, 1.0 / 1.1, 0.032 / 1.1])
    assert predicted.figure["layout"]["xaxis"]["type"] == "log"
    assert predicted.figure["layout"]["yaxis"]["type"] == "log"
    assert "3 iterations of 2 CNNs" in predicted.summary and "2 (67 %) lie" in predicted.summary
    assert errors.figure["data"][2]["y"] == [5.0, -1.0, -20.0]
    assert errors.summary.endswith("The worst is alexnet at batch 1: -20.0 %.")
    assert make_accuracy_hover_texts(machines)[markers["text"]][1] == (
        "resnet50, batch 8\n800 ms → 792 ms (measured, predicted)\n-1.0 %"
    )


def test_the_page_carries_the_charts(evaluated, public, client):
    text = client.get("/accuracy/").content.decode()
    (script,) = re.findall(r'<script id="figures" type="application/json">(.*?)</script>', text)
    assert list(json.loads(script)["charts"]) == ["predicted-0", "errors-0"]
    assert text.count('role="tab"') == 2


def test_the_number_of_queries_does_not_grow(evaluated, public, client, django_assert_num_queries):
    with django_assert_num_queries(3):
        client.get("/accuracy/")
