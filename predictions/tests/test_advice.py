"""Fastest, cheapest, best trade-off: examples, and properties that hold for any candidates."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from predictions.advice import (
    RATIO_ERRORS,
    Candidate,
    advise,
    advise_together,
    find_jumps,
    pareto_front,
)
from regression.ratio_errors import ratio_errors
from regression.stored_reports import stored_estimator_report


def candidate(place: str, batch_size: int, seconds: float, usd: float | None, error=0.1, **more):
    return Candidate(
        place=place,
        device=more.pop("device", place),
        source=more.pop("source", "measured"),
        batch_size=batch_size,
        seconds=seconds,
        seconds_low=seconds * (1 - error),
        seconds_high=seconds * (1 + error),
        usd=usd,
        usd_low=None if usd is None else usd * (1 - error),
        usd_high=None if usd is None else usd * (1 + error),
        **more,
    )


class TestAdvise:
    def test_each_answer_has_its_winner(self):
        fast = candidate("fast", 8, 100, 100)
        cheap = candidate("cheap", 8, 1000, 10)
        middle = candidate("middle", 8, 200, 20)
        advice = advise([cheap, middle, fast])
        assert advice.fastest.winner == fast
        assert advice.cheapest.winner == cheap
        assert advice.trade_off.winner == middle
        assert advice.front == (fast, middle, cheap)

    def test_u12_what_the_intervals_cannot_tell_apart_is_named_beside_the_winner(self):
        advice = advise(
            [candidate("a", 16, 100, 5), candidate("b", 8, 115, 7), candidate("c", 8, 200, 9)]
        )
        assert advice.fastest.winner.place == "a"
        assert [rival.place for rival in advice.fastest.equal_places] == ["b"]

    def test_batch_sizes_of_the_winners_place_that_are_the_same_within_the_error(self):
        advice = advise([candidate("a", size, seconds, 1) for size, seconds in
                         ((8, 150), (16, 105), (32, 100), (64, 110))])  # fmt: skip
        assert advice.fastest.winner.batch_size == 32
        assert advice.fastest.equal_batch_sizes == (16, 32, 64)

    def test_u12_batch_sizes_of_one_estimated_curve_share_its_error(self):
        """However wide the interval: half as fast on the same curve is slower, and said so."""
        wide = {"error": 0.5, "source": "estimated"}
        curve = ((4, 200), (16, 120), (64, 100), (128, 110), (256, 122))
        advice = advise([candidate("a", size, seconds, 1, **wide) for size, seconds in curve])
        assert advice.fastest.equal_batch_sizes == (16, 64, 128)
        mixed = advise(
            [
                candidate("a", 4, 140, 1, **wide),
                candidate("a", 64, 100, 1, error=0.5, source="interpolated"),
            ]
        )
        assert mixed.fastest.equal_batch_sizes == (4, 64)

    def test_u12_of_two_machines_with_one_gpu_the_dearer_is_dearer(self):
        """Both are as wrong as each other; another GPU is wrong in a way of its own."""
        same = {"device": "t4", "source": "estimated", "error": 0.5}
        advice = advise(
            [
                candidate("small", 64, 100, 10, **same),
                candidate("big", 64, 100, 12, **same),
                candidate("spare", 64, 100, 10.2, **same),
                candidate("other", 64, 120, 12, device="l4", source="estimated", error=0.5),
            ]
        )
        assert [rival.place for rival in advice.fastest.equal_places] == ["spare", "big", "other"]
        assert [rival.place for rival in advice.cheapest.equal_places] == ["spare", "other"]
        assert [rival.place for rival in advice.trade_off.equal_places] == ["spare", "other"]

    def test_u12_a_machine_that_may_not_win_wins_nothing(self):
        trap = candidate("retired", 8, 1, 0.01, may_win=False)
        undated = candidate("undated", 8, 50, 0.02, may_win_on_cost=False)
        honest = candidate("honest", 8, 100, 10)
        advice = advise([trap, undated, honest])
        assert advice.fastest.winner == undated
        assert advice.cheapest.winner == honest
        assert advice.trade_off.winner == honest
        assert advice.front == (honest,)

    def test_without_prices_there_is_a_fastest_and_nothing_else(self):
        advice = advise([candidate("a", 8, 100, None)])
        assert advice.fastest.winner.place == "a"
        assert (advice.cheapest, advice.trade_off, advice.front) == (None, None, ())

    def test_nothing_gives_nothing(self):
        advice = advise([])
        assert (advice.fastest, advice.cheapest, advice.trade_off) == (None, None, None)

    def test_of_equal_times_the_smaller_batch_wins(self):
        advice = advise([candidate("a", size, 100, 10) for size in (64, 16, 32)])
        assert advice.fastest.winner.batch_size == 16


def read_reference_points() -> dict[str, dict[int, float]]:
    """Signed log errors of every CNN left out on reference-cpu, by batch size."""
    (file,) = (settings.BASE_DIR / "fixtures" / "models").glob("reference-cpu-*.json")
    curves: dict[str, dict[int, float]] = {}
    for point in json.loads(file.read_text(encoding="utf-8"))["evaluation_points"]:
        error = math.log(point["measured_ms"] / point["predicted_ms"])
        curves.setdefault(point["architecture"], {})[point["batch_size"]] = error
    return curves


@pytest.mark.parametrize("source", RATIO_ERRORS)
def test_ratios_are_off_by_as_much_as_on_what_was_left_out(source):
    if source == "estimated":
        (devices,) = (
            split for split in stored_estimator_report()["splits"] if split["left_out"] == "devices"
        )
        rows = devices["ratios"]
    else:
        rows = ratio_errors(read_reference_points().values())
    assert [row["doublings"] for row in rows] == [1, 2, 3, 4]
    error, per_doubling = RATIO_ERRORS[source]
    for row in rows:
        assert error + per_doubling * row["doublings"] == pytest.approx(row["p80"], abs=0.03)


positive = st.floats(0.01, 1e6)
candidates = st.lists(
    st.builds(
        candidate,
        place=st.sampled_from("abcd"),
        batch_size=st.integers(1, 512),
        seconds=positive,
        usd=st.one_of(st.none(), positive),
        error=st.floats(0, 0.5),
        may_win=st.booleans(),
        may_win_on_cost=st.booleans(),
    ),
    max_size=30,
)


@given(candidates)
def test_u3_nothing_on_the_front_is_beaten_and_all_else_is(found):
    front = pareto_front(found)
    priced = [one for one in found if one.usd is not None]
    for one in priced:
        beaten = any(
            other.seconds <= one.seconds
            and other.usd <= one.usd
            and (other.seconds, other.usd) != (one.seconds, one.usd)
            for other in priced
        )
        on_front = any((one.seconds, one.usd) == (kept.seconds, kept.usd) for kept in front)
        assert on_front is not beaten
    assert [one.seconds for one in front] == sorted(one.seconds for one in front)
    assert [one.usd for one in front] == sorted((one.usd for one in front), reverse=True)


@given(candidates)
def test_no_eligible_candidate_beats_a_winner(found):
    advice = advise(found)
    quick = [one for one in found if one.may_win]
    priced = [one for one in quick if one.may_win_on_cost and one.usd is not None]
    assert (advice.fastest is None) == (not quick)
    assert (advice.cheapest is None) == (not priced)
    if quick:
        assert advice.fastest.winner.seconds == min(one.seconds for one in quick)
    if priced:
        assert advice.cheapest.winner.usd == min(one.usd for one in priced)
        assert advice.trade_off.winner.may_win_on_cost
        assert any(
            advice.trade_off.winner.seconds * advice.trade_off.winner.usd
            <= one.seconds * one.usd * (1 + 1e-12)
            for one in advice.front
        )


@given(candidates, st.sampled_from([2.0, 4.0, 0.5]), st.sampled_from([2.0, 8.0, 0.25]))
def test_other_units_of_time_and_money_change_no_winner(found, time_factor, money_factor):
    scaled = [
        replace(
            one,
            seconds=one.seconds * time_factor,
            seconds_low=one.seconds_low * time_factor,
            seconds_high=one.seconds_high * time_factor,
            usd=None if one.usd is None else one.usd * money_factor,
            usd_low=None if one.usd is None else one.usd_low * money_factor,
            usd_high=None if one.usd is None else one.usd_high * money_factor,
        )
        for one in found
    ]
    before, after = advise(found), advise(scaled)
    for name in ("fastest", "cheapest", "trade_off"):
        one, other = getattr(before, name), getattr(after, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.winner.place == other.winner.place
            assert one.winner.batch_size == other.winner.batch_size


class TestTogether:
    """Over CNNs: one place for all of them."""

    def test_times_and_costs_of_a_place_add_up_at_each_cnns_best_batch(self):
        one = [candidate("a", 8, 100, 1), candidate("a", 16, 80, 0.8), candidate("b", 8, 50, 5)]
        other = [candidate("a", 4, 10, 0.1), candidate("b", 2, 300, 30)]
        advice = advise_together([one, other])
        assert advice.fastest.winner.place == "a"
        assert [part.batch_size for part in advice.fastest.winner.parts] == [16, 4]
        assert advice.fastest.winner.seconds == pytest.approx(90)
        assert advice.fastest.winner.usd == pytest.approx(0.9)
        assert advice.cheapest.winner.place == "a"
        assert advice.fastest.equal_places == ()

    def test_a_place_without_an_answer_for_each_cnn_does_not_count(self):
        one = [candidate("a", 8, 100, 1), candidate("b", 8, 1, 0.01)]
        other = [candidate("a", 8, 100, 1), candidate("b", 8, 1, 0.01, may_win=False)]
        advice = advise_together([one, other])
        assert advice.fastest.winner.place == "a"
        nothing = advise_together([one, []])
        assert (nothing.fastest, nothing.cheapest, nothing.trade_off) == (None, None, None)

    def test_what_the_intervals_cannot_tell_apart_stands_beside_it(self):
        one = [candidate("a", 8, 100, 5), candidate("b", 8, 105, 9)]
        advice = advise_together([one, one])
        assert [rival.place for rival in advice.fastest.equal_places] == ["b"]
        assert advice.cheapest.equal_places == ()

    def test_one_gpu_in_two_machines_errs_alike_for_all_cnns(self):
        same = {"device": "t4", "source": "estimated", "error": 0.5}
        one = [candidate("a", 8, 100, 5, **same), candidate("b", 8, 100, 6, **same)]
        advice = advise_together([one, one])
        assert [rival.place for rival in advice.fastest.equal_places] == ["b"]
        assert advice.cheapest.equal_places == ()

    def test_an_undated_price_wins_on_time_only(self):
        one = [candidate("a", 8, 1, 0.1, may_win_on_cost=False), candidate("b", 8, 100, 9)]
        advice = advise_together([one, one])
        assert advice.fastest.winner.place == "a"
        assert advice.cheapest.winner.place == "b"


@given(candidates, candidates)
def test_the_place_for_all_is_never_better_than_each_cnns_own(one, other):
    together = advise_together([one, other])
    alone = [advise(found) for found in (one, other)]
    if together.fastest is not None:
        alone_seconds = [advice.fastest.winner.seconds for advice in alone if advice.fastest]
        assert together.fastest.winner.seconds >= sum(alone_seconds) * (1 - 1e-12)
    if together.cheapest is not None:
        alone_usd = [advice.cheapest.winner.usd or 0.0 for advice in alone if advice.cheapest]
        assert together.cheapest.winner.usd >= sum(alone_usd) * (1 - 1e-12)


class TestJumps:
    @pytest.mark.parametrize(
        ("times", "jumps"),
        [
            ([10, 20, 40, 80], {}),
            ([10, 20, 60, 120], {4: 2}),
            ([10, None, 60, 120], {4: 1}),
            ([10, 12, 13, 14], {}),
            ([None, None, None, 5], {}),
        ],
    )
    def test_u5_a_jump_is_a_clear_rise_of_the_time_per_example(self, times, jumps):
        assert find_jumps([1, 2, 4, 8], times) == jumps
