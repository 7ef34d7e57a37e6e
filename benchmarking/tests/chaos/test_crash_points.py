"""R22: whatever dies between any two effects of a step, nothing is lost, doubled or left over."""

from __future__ import annotations

import pytest

from benchmarking.models import BenchmarkJob
from benchmarking.tests.chaos.crash_points import accidents_left, all_accidents
from benchmarking.tests.chaos.site import (
    TIMINGS_OF_A_JOB,
    ChaosSite,
    live_rows,
    timing_counts,
)

pytestmark = [pytest.mark.chaos, pytest.mark.sshd]


def test_r22_r1_every_accident_at_every_point(
    site: ChaosSite, capsys: pytest.CaptureFixture[str]
) -> None:
    accidents = all_accidents()[:12]
    jobs = [site.create_job(accident) for accident in accidents]

    def is_over() -> bool:
        ids = [job.pk for job in jobs]
        return not BenchmarkJob.objects.filter(pk__in=ids, ended_at__isnull=True).exists()

    site.wait_until(is_over, "all over", seconds=600.0)
    site.wait_until(lambda: not site.cloud.front.live(), "all instances gone")
    counts = timing_counts(jobs)
    doubled = sum(max(0, count - TIMINGS_OF_A_JOB) for count in counts)
    lost = sum(max(0, TIMINGS_OF_A_JOB - count) for count in counts)
    with capsys.disabled():
        print(
            f"\n{len(accidents)} combinations of crash point and accident: "
            f"{len(site.cloud.front.live())} orphans, {doubled} duplicate timings, "
            f"{lost} lost timings, at most {site.cloud.front.most_live_of_a_job} live instance "
            f"of a job at once"
        )
    assert accidents_left(site.accidents) == []
    assert (doubled, lost) == (0, 0)
    assert site.cloud.front.most_live_of_a_job == 1
    assert live_rows() == 0
    states = BenchmarkJob.objects.filter(pk__in=[job.pk for job in jobs])
    assert set(states.values_list("state", "reason")) == {("succeeded", "completed")}
