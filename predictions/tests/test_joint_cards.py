"""Where to train all CNNs of a comparison, in words and for programs."""

from __future__ import annotations

import pytest

from predictions.cards import make_answers
from predictions.forecast import make_forecast
from predictions.joint_cards import make_joint_answer

MACHINES = ["aws-g4dn.xlarge", "aws-p4d.24xlarge", "aws-old.xlarge"]


def together(ask, **parameters):
    return make_joint_answer(make_answers(make_forecast(ask(**parameters))))


def test_one_cnn_needs_no_joint_answer(ask):
    assert together(ask, architecture="resnet50", machine=MACHINES) is None


def test_the_joint_answer_adds_up_what_the_cnns_answers_say(ask):
    forecast = make_forecast(
        ask(architecture=["resnet50", "mobilenet_v2"], machine=MACHINES, batch_sizes="8,64")
    )
    joint = make_joint_answer(make_answers(forecast))
    rows = [answer.cards[1].row for answer in make_answers(forecast)]
    found = joint.to_json()
    assert found["architectures"] == ["resnet50", "mobilenet_v2"]
    assert found["fastest"]["place"] == "aws-p4d.24xlarge"
    assert found["cheapest"]["place"] == "aws-g4dn.xlarge"
    assert found["cheapest"]["total_cost_usd"] == pytest.approx(
        sum(row.total_cost_usd or 0.0 for row in rows if row)
    )
    assert found["cheapest"]["batch_sizes"] == {"resnet50": 64, "mobilenet_v2": 64}
    assert joint.cards[1].title == "Cheapest for all"
    assert joint.cards[1].why == "resnet50 at batch 64 and mobilenet_v2 at batch 64."


def test_a_machine_that_lacks_one_cnn_is_passed_over(ask):
    joint = together(
        ask, architecture=["resnet50", "inception_v3"], machine="reference-cpu", image_size="224",
        precision="amp",
    )  # fmt: skip
    assert joint.cards[0].place == ""
    assert joint.cards[0].why == "No machine here has an answer for every CNN."
    assert joint.to_json()["cheapest"] == {
        "place": None,
        "total_seconds": None,
        "total_cost_usd": None,
        "batch_sizes": {},
        "equal_places": [],
        "why": "No machine here has a dated price and an answer for every CNN.",
    }
