"""What each state of a job means, in plain words for who watches it."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarking.jobs.lifecycle import State
from benchmarking.jobs.reasons import Reason
from benchmarking.models import BenchmarkJob

STATE_SENTENCES: Mapping[State, str] = {
    State.QUEUED: "It waits for its turn; nothing runs and nothing is paid for yet.",
    State.LAUNCHING: "Its machine is being asked for.",
    State.WAITING_CAPACITY: (
        "The cloud has no such machine free, or a limit of this site is reached. It is asked for "
        "again later; nothing is paid for meanwhile."
    ),
    State.BOOTING: "The machine is there and starts up; the benchmark is brought to it.",
    State.RUNNING: "The machine measures. Each timing is stored as it is fetched.",
    State.COLLECTING: "The benchmark has ended; the last timings are fetched.",
    State.CLEANING: (
        "The benchmark is stopped, what it has measured is fetched, and the machine is given back. "
        "The job is not over before that is confirmed."
    ),
    State.SUCCEEDED: "Over: nothing runs and nothing is paid for any more.",
    State.FAILED: "Over: nothing runs and nothing is paid for any more. What was measured is kept.",
    State.CANCELLED: (
        "Over: nothing runs and nothing is paid for any more. What was measured is kept."
    ),
}


def explain_state(job: BenchmarkJob) -> str:
    """The state's sentence, and why the job ends where it does."""
    sentence = STATE_SENTENCES[State(job.state)]
    if not job.reason:
        return sentence
    return f"{Reason(job.reason).outcome.sentence} {sentence}"
