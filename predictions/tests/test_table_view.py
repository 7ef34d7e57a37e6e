"""The table's view in the query string: beside the query, and nothing lost on the way."""

from __future__ import annotations

from dataclasses import fields
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictions.query import OPTION_NAMES, QueryError, parse_query
from predictions.table_view import (
    CHARTS,
    SORT_KEYS,
    SPANS,
    TIME_UNITS,
    TableView,
    parse_view,
)
from predictions.tests.test_query import CHOICES, MINIMAL, queries

VIEW_NAMES = tuple(field.name for field in fields(TableView))

names = st.text("abcdefghijklmnopqrstuvwxyz0123456789._-", min_size=1, max_size=40)
words = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=20)
views = st.builds(
    TableView,
    times=st.sampled_from(TIME_UNITS),
    per=st.sampled_from(SPANS),
    sort=st.sampled_from(["", *SORT_KEYS, *(f"-{key}" for key in SORT_KEYS)]),
    show=st.lists(words, max_size=5).map(" ".join),
    reference=st.one_of(
        st.just(""), st.builds("{}@{}{}".format, names, st.sampled_from(["", "device:"]), names)
    ),
    chart=st.sampled_from(["", *CHARTS]),
)


@given(queries, views)
def test_u1_any_view_is_a_url(query, view):
    """State -> URL -> state, over every option of the query and of the view."""
    address = "&".join(filter(None, [query.to_query_string(), view.to_query_string()]))
    given_texts = parse_qs(address)
    assert (parse_query(given_texts, CHOICES), parse_view(given_texts)) == (query, view)


@pytest.mark.parametrize("per", SPANS)
@pytest.mark.parametrize("direction", ["", "-"])
@pytest.mark.parametrize("key", SORT_KEYS)
def test_u3_beside_costs_of_an_epoch_its_time_takes_the_place_of_the_total(per, direction, key):
    shown = "epoch_seconds" if (per, key) == ("epoch", "total_seconds") else key
    view = parse_view({"per": [per], "sort": [f"{direction}{key}"]})
    assert view.sort == f"{direction}{shown}"
    assert ("sort", view.sort) in view.parameters()


def test_u1_what_is_not_chosen_is_left_out():
    assert parse_view({"times": ["words"], "per": ["total"], "sort": [""]}) == TableView()
    assert TableView().to_query_string() == ""
    assert TableView(sort="-memory_mib", chart="cost").to_query_string() == (
        "sort=-memory_mib&chart=cost"
    )


@pytest.mark.parametrize("name", VIEW_NAMES)
def test_u2_rows_do_not_depend_on_the_view(name):
    """A name of the view is no option of the query, nor taken for a mistyped one."""
    assert name not in OPTION_NAMES
    assert parse_query(MINIMAL | {name: ["x"]}, CHOICES) == parse_query(MINIMAL, CHOICES)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"times": ["hour"]}, "Unknown unit of times 'hour': it is one of words, hours, seconds."),
        ({"per": ["year"]}, "Unknown span of costs 'year': it is one of total, epoch."),
        ({"sort": ["-cost"]}, "Unknown sorting '-cost': it is one of name, batch_size"),
        ({"chart": ["pie"]}, "Unknown chart 'pie': it is one of epoch-time, cost, time-cost."),
        ({"reference": ["t4"]}, "The reference is a CNN and a machine, as in resnet50@aws-"),
        ({"reference": ["x@" + "y" * 300]}, "The reference is a CNN and a machine, as in"),
        ({"show": ["x" * 201]}, "What the table shows is found by at most 200 printable"),
        ({"show": ["a\0b"]}, "What the table shows is found by at most 200 printable"),
        ({"times": ["hours", "seconds"]}, "Give times once (got 2 different values)."),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(parameters, sentence):
    with pytest.raises(QueryError) as caught:
        parse_view(parameters)
    assert list(caught.value.errors) == list(parameters)
    assert str(caught.value).startswith(sentence)


@given(st.dictionaries(st.sampled_from(VIEW_NAMES), st.lists(st.text())))
def test_no_text_breaks_the_parser(parameters):
    try:
        parse_view(parameters)
    except QueryError as error:
        assert all(sentence.endswith((".", "?")) for sentence in error.errors.values())
