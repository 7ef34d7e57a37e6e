"""R22: whatever dies between any two effects of a step, nothing is lost, doubled or left over."""

from __future__ import annotations

from collections import deque

import pytest

from benchmarking.models import BenchmarkJob
from benchmarking.tests.chaos.crash_points import accidents_left, all_accidents
from benchmarking.tests.chaos.site import (
    INSTANCES,
    TIMINGS_OF_A_JOB,
    ChaosSite,
    check_nothing_is_lost,
    timing_counts,
)

pytestmark = [pytest.mark.chaos, pytest.mark.sshd]

MOST_SECONDS = 600.0


def test_r1_r22_every_accident_at_every_point(
    site: ChaosSite, capsys: pytest.CaptureFixture[str]
) -> None:
    accidents = all_accidents()
    to_come = deque(accidents)
    jobs: list[BenchmarkJob] = []
    unfinished = BenchmarkJob.objects.filter(ended_at__isnull=True)

    def all_are_over() -> bool:
        # As many as there are places: jobs in a long line would only keep the workers busy.
        places = INSTANCES - unfinished.count()
        for _ in range(min(places, len(to_come))):
            jobs.append(site.create_job(to_come.popleft()))
        return not to_come and not unfinished.exists()

    site.wait_until(all_are_over, "all over", MOST_SECONDS)

    counts = timing_counts(jobs)
    doubled = sum(max(0, count - TIMINGS_OF_A_JOB) for count in counts)
    lost = sum(max(0, TIMINGS_OF_A_JOB - count) for count in counts)
    with capsys.disabled():
        print(
            f"\n{len(accidents)} combinations of crash point and accident: "
            f"{len(site.cloud.front.live())} orphans, {doubled} duplicate timings, "
            f"{lost} lost timings, most live instances of a job at once: "
            f"{site.cloud.front.most_live_of_a_job}"
        )
    assert accidents_left(site.accidents) == []
    check_nothing_is_lost(site, *jobs)
