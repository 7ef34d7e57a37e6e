"""From an epoch to a whole training: golden arithmetic, and what holds for any of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictions.totals import Training


def test_without_extras_a_training_is_its_epochs():
    training = Training(epochs=90)
    assert training.total_seconds(100.0) == 9000.0
    assert training.usd_per_second(3.6) == pytest.approx(0.001)
    assert training.extras() == []


def test_each_extra_in_figures_and_in_words():
    training = Training(
        epochs=10,
        interruption_percent=12.5,
        start_minutes=6,
        storage_gib=730,
        storage_usd_per_gib_month=0.1,
    )
    assert training.total_seconds(3600.0) == pytest.approx(10 * 3600 * 1.125 + 360)
    assert training.storage_usd_per_hour == pytest.approx(0.1)
    assert training.usd_per_second(0.9) == pytest.approx(1.0 / 3600)
    assert training.extras() == [
        "12.5 % more time for interruptions",
        "6 min to start the machine",
        "730 GiB of storage at $0.1 per GiB-month",
    ]


@given(
    st.builds(
        Training,
        epochs=st.integers(1, 100_000),
        interruption_percent=st.floats(0, 1000),
        start_minutes=st.floats(0, 1440),
        storage_gib=st.floats(0, 1e6),
        storage_usd_per_gib_month=st.floats(0, 1000),
    ),
    st.floats(1e-3, 1e9),
    st.floats(0, 1000),
)
def test_an_extra_never_makes_a_training_shorter_or_cheaper(training, epoch_seconds, usd_per_hour):
    plain = Training(epochs=training.epochs)
    assert training.total_seconds(epoch_seconds) >= plain.total_seconds(epoch_seconds)
    assert training.usd_per_second(usd_per_hour) >= plain.usd_per_second(usd_per_hour)
