"""The lines of the table in every view: sorted, filtered, in other units, beside a reference."""

from __future__ import annotations

import re

import pytest

from predictions.cards import make_answers
from predictions.forecast import make_forecast
from predictions.measuring import count_layers
from predictions.row_texts import texts_of_series
from predictions.table_view import SORT_KEYS, SPANS, TableView
from predictions.tables import make_table

PLACES = {
    "architecture": ["resnet50", "mobilenet_v2"],
    "machine": ["reference-cpu", "aws-p4d.24xlarge", "aws-g4dn.xlarge"],
    "device": "t4",
    "epochs": "9",
    "examples": "50000",
}


@pytest.fixture
def table(ask):
    """The table of a comparison in a view; ``asked`` changes the comparison."""

    def make(asked=None, **view):
        forecast = make_forecast(ask(**PLACES | (asked or {})))
        chosen = TableView(**view)
        return make_table(
            forecast,
            texts_of_series(forecast.series, chosen),
            make_answers(forecast),
            count_layers(forecast.series),
            chosen,
        )

    return make


def shown(table):
    return [(line.architecture, line.place) for line in table.lines]


class TestSorting:
    @pytest.mark.parametrize("key", SORT_KEYS)
    @pytest.mark.parametrize("direction", ["", "-"])
    @pytest.mark.parametrize("per", SPANS)
    def test_u3_list_heading_and_link_name_the_column_that_lines_are_sorted_by(
        self, table, key, direction, per
    ):
        found = table(sort=f"{direction}{key}", per=per)
        (heading,) = [heading for heading in found.headings if heading.direction]
        (option,) = [option for option in found.sortings if option.chosen]
        assert option.value == f"{direction}{heading.key}"
        assert f"&sort={direction}{heading.key}" in found.link_query
        assert (heading.key == key) != (key == "total_seconds" and per == "epoch")

    @pytest.mark.parametrize("key", ["batch_size", "epoch_seconds", "total_seconds", "memory_mib"])
    @pytest.mark.parametrize("per", ["total", "epoch"])
    def test_u3_lines_are_sorted_by_what_they_show(self, table, key, per):
        ascending = [getattr(line.row, key) for line in table(sort=key, per=per).lines]
        assert len(ascending) == 8
        assert ascending == sorted(ascending)
        descending = [getattr(line.row, key) for line in table(sort=f"-{key}", per=per).lines]
        assert descending == sorted(descending, reverse=True)

    def test_u3_what_has_no_price_stays_below_whichever_way_round(self, table):
        for sort in ("total_cost_usd", "-total_cost_usd"):
            costs = [line.row.total_cost_usd for line in table(sort=sort).lines]
            assert costs[6:] == [None, None]
            assert costs[:6] == sorted(costs[:6], reverse=sort.startswith("-"))

    def test_u3_what_has_no_answer_stays_below_whichever_way_round(self, table):
        for sort in ("name", "-name", "epoch_seconds", "-epoch_seconds"):
            lines = table({"precision": "amp"}, sort=sort).lines
            assert [line.place for line in lines[-2:]] == ["reference-cpu", "reference-cpu"]

    def test_unsorted_lines_come_as_they_were_asked_for(self, table):
        assert shown(table())[:2] == [
            ("resnet50", "reference-cpu"),
            ("resnet50", "aws-p4d.24xlarge"),
        ]

    def test_a_heading_sorts_by_its_column_and_then_the_other_way(self, table):
        headings = {heading.key: heading for heading in table(sort="memory_mib").headings}
        assert headings["memory_mib"].direction == "ascending"
        assert headings["memory_mib"].sort_query.endswith("&sort=-memory_mib")
        assert headings["name"].direction == ""
        assert headings["name"].sort_query.endswith("&sort=name")
        turned = {heading.key: heading for heading in table(sort="-memory_mib").headings}
        assert turned["memory_mib"].direction == "descending"
        assert turned["memory_mib"].sort_query.endswith("&sort=memory_mib")

    def test_u3_the_chosen_sorting_stands_in_its_list(self, table):
        found = table(sort="-memory_mib").sortings
        assert [option.label for option in found if option.chosen] == ["memory, descending"]
        assert len(found) == 13


class TestShowing:
    def test_u3_a_line_needs_every_word(self, table):
        found = table(show="T4 mobilenet")
        assert shown(found) == [("mobilenet_v2", "aws-g4dn.xlarge"), ("mobilenet_v2", "t4")]
        assert found.line_count == 8

    def test_nothing_found_is_an_empty_table(self, table):
        assert table(show="no such thing").lines == ()


class TestUnits:
    @pytest.mark.parametrize(
        ("times", "unit", "symbol"), [("hours", 3600, "h"), ("seconds", 1, "s")]
    )
    def test_u3_times_as_plain_numbers(self, table, times, unit, symbol):
        (line,) = table(times=times, show="resnet50 g4dn").lines
        found = re.search(
            rf'Epoch time"><data value="([^"]+)">([0-9.,]+) {symbol}</data>', line.cells
        )
        exact, text = float(found[1]), float(found[2].replace(",", ""))
        assert exact == line.row.epoch_seconds
        assert text * unit == pytest.approx(exact, rel=0.1)
        assert f" {symbol}</data>" in line.range_body

    def test_u3_costs_of_an_epoch(self, table):
        asked = {"start_minutes": "60", "interruption_overhead": "50"}
        found = table(asked, per="epoch", show="resnet50 g4dn")
        (line,) = found.lines
        cost = re.search(r'"Cost of an epoch"><data value="([^"]+)">', line.cells)[1]
        assert float(cost) == pytest.approx(line.row.epoch_seconds / 3600 * 0.526)
        assert "Total time" not in line.cells
        assert [heading.label for heading in found.headings] == [
            "CNN and machine", "Batch size", "Epoch time", "Cost of an epoch", "Memory", "Source",
        ]  # fmt: skip


class TestReference:
    """U3: relative to a reference column."""

    def test_u3_every_other_line_says_how_many_times_the_reference_it_is(self, table):
        lines = table(reference="resnet50@aws-g4dn.xlarge", show="resnet50").lines
        by_place = {line.place: line for line in lines}
        reference, other = by_place["aws-g4dn.xlarge"], by_place["aws-p4d.24xlarge"]
        assert reference.is_reference
        assert "x reference" not in reference.cells
        ratios = re.findall(r'"ratio">([0-9.,]+) x reference', other.cells)
        exact = [
            getattr(other.row, key) / getattr(reference.row, key)
            for key in ("epoch_seconds", "total_seconds", "total_cost_usd", "memory_mib")
        ]
        assert [float(text.replace(",", "")) for text in ratios] == pytest.approx(exact, rel=0.1)

    def test_u3_a_device_can_be_the_reference(self, table):
        found = table(reference="resnet50@device:t4")
        (line,) = [line for line in found.lines if line.is_reference]
        assert (line.architecture, line.place) == ("resnet50", "t4")

    def test_a_reference_outside_the_comparison_is_named(self, table):
        found = table(reference="vgg16@aws-g4dn.xlarge")
        assert found.lost_reference == "vgg16@aws-g4dn.xlarge"
        assert not any(line.is_reference or "ratio" in line.cells for line in found.lines)

    def test_each_line_with_an_answer_can_be_chosen(self, table):
        options = table(reference="resnet50@device:t4").references
        assert len(options) == 8
        assert [option.label for option in options if option.chosen] == ["resnet50 on t4"]


def test_u1_the_link_holds_query_and_view_and_the_rows_link_only_the_query(table):
    found = table(times="hours", sort="-memory_mib", reference="resnet50@device:t4")
    assert found.link_query == (
        f"{found.rows_query}&times=hours&sort=-memory_mib&reference=resnet50@device%3At4"
    )
    assert "times" not in found.rows_query
