"""The three answers in words."""

from __future__ import annotations

from dataclasses import replace

from predictions import curves
from predictions.cards import make_answers
from predictions.forecast import make_forecast
from predictions.tests.fakes import fake_curve

DASH = "\N{EN DASH}"


def answers(ask, **parameters):
    return make_answers(make_forecast(ask(**parameters)))


def test_u3_each_card_names_machine_batch_size_time_cost_and_source(ask):
    machines = ["reference-cpu", "aws-g4dn.xlarge", "aws-p4d.24xlarge"]
    (answer,) = answers(ask, architecture="resnet50", epochs="90", machine=machines)
    fastest, cheapest, trade_off = answer.cards
    assert [card.title for card in answer.cards] == ["Fastest", "Cheapest", "Best trade-off"]
    assert (fastest.place, fastest.batch_size) == ("aws-p4d.24xlarge", 128)
    assert (cheapest.place, cheapest.batch_size) == ("aws-g4dn.xlarge", 128)
    assert fastest.row.source == "estimated"
    assert fastest.figure == "3 d 12 h"
    assert fastest.interval == f"2 d 12 h {DASH} 4 d 12 h"
    assert fastest.other_figure == "$1,800"
    assert cheapest.figure == "$105"
    assert trade_off.figure == "8 d · $105"
    assert trade_off.why == "137 % slower than the fastest for 6 % of its cost."


def test_u12_a_retired_or_undated_machine_wins_nothing(ask):
    (answer,) = answers(ask, architecture="resnet50",
                        machine=["aws-old.xlarge", "azure-undated", "aws-g4dn.xlarge"])  # fmt: skip
    assert [card.place for card in answer.cards[1:]] == ["aws-g4dn.xlarge", "aws-g4dn.xlarge"]
    assert answer.cards[0].place != "aws-old.xlarge"
    assert answer.remarks == (
        "aws-old.xlarge can no longer be rented and wins nothing.",
        "The price of azure-undated has no date and wins nothing.",
    )


def test_u12_what_is_the_same_within_the_error_is_named(ask):
    (answer,) = answers(ask, architecture="resnet50", machine=["aws-g4dn.xlarge", "gcp-unpriced"])
    assert answer.cards[0].why.startswith("Or gcp-unpriced at ")
    assert "the same within the error" in answer.cards[0].why


def test_a_batch_that_does_not_fit_does_not_win(ask):
    (answer,) = answers(
        ask, architecture="resnet50", machine="aws-g4dn.xlarge", batch_sizes="2,2048"
    )
    assert [card.batch_size for card in answer.cards] == [2, 2, 2]


def test_u12_a_batch_that_may_not_fit_does_not_win(ask, monkeypatch):
    def unsure(architecture, place, precision, optimizer, batch_sizes):
        curve = fake_curve(architecture, place, precision, optimizer, batch_sizes)
        fits = ["yes" if size <= 48 else "unknown" for size in batch_sizes]
        return replace(curve, fits=fits, largest_batch=48)

    monkeypatch.setattr(curves, "compute_curve", unsure)
    (answer,) = answers(
        ask, architecture="resnet50", machine="aws-g4dn.xlarge", batch_sizes="32,48,64"
    )
    assert [card.batch_size for card in answer.cards] == [48, 48, 48]


def test_without_a_price_the_card_says_so(ask):
    (answer,) = answers(ask, architecture="resnet50", device="t4")
    assert answer.cards[0].other_figure == "no price known"
    assert answer.cards[1].place == ""
    assert answer.cards[1].why == "No dated price is known for these machines in this region."


def test_a_machine_of_several_devices_says_what_is_paid(ask):
    (answer,) = answers(ask, architecture="resnet50", machine="aws-p4d.24xlarge")
    assert answer.cards[1].why == "Uses 1 of 8 GPUs; you pay for all 8."


def test_several_cnns_have_answers_of_their_own(ask):
    found = answers(ask, architecture=["resnet50", "mobilenet_v2"], machine="aws-g4dn.xlarge")
    assert [answer.architecture for answer in found] == ["resnet50", "mobilenet_v2"]


def test_a_machine_and_a_device_of_one_name_do_not_get_mixed_up(ask):
    (answer,) = answers(
        ask, architecture="resnet50", machine="reference-cpu", device="reference-cpu",
        batch_sizes="8", max_usd="1000000",
    )  # fmt: skip
    assert [card.row.machine for card in answer.cards] == ["reference-cpu"] * 3
