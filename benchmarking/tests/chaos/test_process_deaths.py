"""R22, R23: processes and servers that end, forget or sleep in the middle of jobs."""

from __future__ import annotations

import os
import signal

import pytest

from benchmarking.models import JobEvent
from benchmarking.tests.chaos.crash_points import STOP, Accident, sleeper_of
from benchmarking.tests.chaos.site import ChaosSite, check_nothing_is_lost

pytestmark = [pytest.mark.chaos, pytest.mark.sshd]


@pytest.mark.parametrize("victims", ["children", "workers", "beat", "everything"])
def test_r22_killed_processes_lose_nothing(site: ChaosSite, victims: str) -> None:
    job = site.create_held_job()
    if victims in ("children", "everything"):
        for pid in [*site.pool_of("worker-1"), *site.pool_of("worker-2")]:
            os.kill(pid, signal.SIGKILL)
    if victims in ("workers", "everything"):
        site.kill("worker-1")
        site.kill("worker-2")
    if victims in ("beat", "everything"):
        site.kill("beat")
    site.let_go(job)

    site.finish(job)

    check_nothing_is_lost(site, job)


def test_r22_redis_that_loses_its_data_loses_no_job(site: ChaosSite) -> None:
    job = site.create_held_job()
    site.redis.kill()
    queued_meanwhile = site.create_job()
    site.redis.start()
    site.let_go(job)

    site.finish(job)
    site.finish(queued_meanwhile)

    check_nothing_is_lost(site, job, queued_meanwhile)


def test_r22_database_that_crashes_and_comes_back_loses_no_job(site: ChaosSite) -> None:
    job = site.create_held_job()
    site.postgres.crash()
    site.let_go(job)
    site.postgres.start()

    site.finish(job)

    check_nothing_is_lost(site, job)


@pytest.mark.parametrize("point", ["ec2 run", "ssh start", "ssh fetch"])
def test_r23_worker_that_sleeps_past_its_lease_writes_nothing(site: ChaosSite, point: str) -> None:
    job = site.create_job(Accident(point, "after", STOP))
    site.wait_until(lambda: sleeper_of(site.accidents, job.pk), "a worker asleep")
    sleeper = sleeper_of(site.accidents, job.pk)

    site.finish(job)
    events = JobEvent.objects.filter(job=job).count()
    os.kill(sleeper, signal.SIGCONT)
    site.wait_until(lambda: sleeper_of(site.accidents, job.pk) is None, "the step over")

    assert JobEvent.objects.filter(job=job).count() == events
    check_nothing_is_lost(site, job)
