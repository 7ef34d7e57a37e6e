"""Reasons and what they mean."""

from __future__ import annotations

from benchmarking.jobs.reasons import Reason
from benchmarking.models import BenchmarkJob


def test_every_reason_has_an_outcome_in_a_final_state() -> None:
    for reason in Reason:
        assert reason.outcome.final_state in BenchmarkJob.FINAL_STATES
        assert reason.outcome.sentence.endswith(".")
        # What measured everything it could is no failure that another try would mend.
        assert not (reason.outcome.retry and reason.outcome.final_state != "failed")
