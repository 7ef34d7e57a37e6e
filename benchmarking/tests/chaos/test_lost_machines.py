"""Machines, connections and answers that are lost while jobs run on them."""

from __future__ import annotations

import pytest

from benchmarking.jobs.lifecycle import cancel_job
from benchmarking.models import BenchmarkJob, CloudInstance
from benchmarking.tests.chaos.site import (
    HELD_AFTER,
    TIMINGS_OF_A_JOB,
    ChaosSite,
    check_nothing_is_lost,
    check_nothing_lives,
    timing_counts,
)
from benchmarking.tests.hosts.metadata_service import NOTICE

pytestmark = [pytest.mark.chaos, pytest.mark.sshd]


def wait_for_silence(site: ChaosSite) -> None:
    """Wait until a worker has found nobody: it then asks EC2 whether the machine is there."""
    calls = len(site.cloud.front.calls_of("DescribeInstances"))
    site.wait_until(
        lambda: len(site.cloud.front.calls_of("DescribeInstances")) > calls, "a worker in doubt"
    )


def successor_of(site: ChaosSite, job: BenchmarkJob) -> BenchmarkJob:
    """The job that measures the rest, after its end."""
    return site.finish(BenchmarkJob.objects.get(retry_of=job))


def test_r11_ssh_server_that_dies_and_comes_back_costs_nothing(site: ChaosSite) -> None:
    job = site.create_held_job()
    machine = site.machine_of(job)
    machine.kill()
    wait_for_silence(site)
    machine.start()
    site.let_go(job)

    site.finish(job)

    check_nothing_is_lost(site, job)


def test_r11_ssh_server_that_hangs_costs_nothing(site: ChaosSite) -> None:
    job = site.create_held_job()
    machine = site.machine_of(job)
    machine.hang()
    wait_for_silence(site)
    machine.resume()
    site.let_go(job)

    site.finish(job)

    check_nothing_is_lost(site, job)


def test_r7_swapped_host_key_ends_the_job_and_nothing_more_is_executed(
    site: ChaosSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = site.create_held_job()
    machine = site.machine_of(job)
    executed: list[str] = []
    stop = machine.stop

    def look_and_stop() -> None:
        executed.extend(machine.commands)
        stop()

    monkeypatch.setattr(machine, "stop", look_and_stop)
    machine.swap_host_key()
    commands = machine.commands

    ended = site.finish(job)

    assert (ended.state, ended.reason) == ("failed", "host_key_mismatch")
    assert ended.stored_count == HELD_AFTER
    assert executed == commands
    check_nothing_lives(site)


def test_r11_instance_that_ends_under_a_job_costs_only_what_was_not_measured(
    site: ChaosSite,
) -> None:
    job = site.create_held_job()
    (launch,) = site.cloud.front.live(job.pk)
    site.cloud.front.die(launch.instance_id)

    ended = site.finish(job)

    assert (ended.state, ended.reason, ended.stored_count) == (
        "failed",
        "instance_lost",
        HELD_AFTER,
    )
    successor = successor_of(site, job)
    assert successor.state == "succeeded"
    assert sum(timing_counts([job, successor])) == TIMINGS_OF_A_JOB
    check_nothing_lives(site)


def test_r15_spot_notice_saves_what_is_measured_and_another_job_goes_on(site: ChaosSite) -> None:
    job = site.create_held_job(price_kind="spot")
    site.metadata.notice = NOTICE
    try:
        ended = site.finish(job)
    finally:
        site.metadata.notice = None

    assert (ended.state, ended.reason, ended.interruptions) == ("failed", "spot_interrupted", 1)
    successor = successor_of(site, job)
    assert (successor.state, successor.price_kind) == ("succeeded", "spot")
    assert sum(timing_counts([job, successor])) == TIMINGS_OF_A_JOB
    check_nothing_lives(site)


def test_r1_r17_errors_and_lost_answers_of_aws_cost_nothing(site: ChaosSite) -> None:
    front = site.cloud.front
    front.plan_error("InternalError", action="RunInstances", times=3)
    front.drop_answer(action="RunInstances", times=3)
    front.truncate_answer(action="RunInstances", times=2)
    front.plan_error("RequestLimitExceeded", action="DescribeInstances", status=503, times=3)
    front.drop_answer(action="TerminateInstances", times=3)
    front.plan_error("Unavailable", action="TerminateInstances", times=3)
    launches = len(front.launches)
    job = site.create_job()

    site.finish(job)

    assert len(front.launches) == launches + 1
    check_nothing_is_lost(site, job)


def test_full_disk_ends_the_job_in_words_and_the_machine_too(site: ChaosSite) -> None:
    with site.machines_with(disk_kib=16):
        job = site.create_job()
        ended = site.finish(job)

    assert (ended.state, ended.reason) == ("failed", "disk_full")
    check_nothing_lives(site)


def test_r5_no_capacity_waits_and_launches_nothing(site: ChaosSite) -> None:
    site.cloud.front.plan_error("InsufficientInstanceCapacity", times=None)
    job = site.create_job()

    waiting = site.wait_for_state(job, "waiting_capacity")

    assert "No zone has a c5.xlarge" in waiting.host_state["waiting"]["message"]
    assert not CloudInstance.objects.filter(job=job).exclude(instance_id="").exists()
    site.cloud.front.clear_faults()
    assert cancel_job(job)
    assert site.finish(job).state == "cancelled"
    check_nothing_lives(site)


def test_r18_instance_that_nobody_knows_is_ended_and_that_of_others_is_not(site: ChaosSite) -> None:
    front = site.cloud.front
    ours = front.launch_by_hand(tags={"epochcast:deployment": "chaos"})
    others = front.launch_by_hand(tags={"epochcast:deployment": "somebody else"})

    site.wait_until(lambda: ours not in front.live(), "the reaper done")

    assert front.live() == [others]
    front.die(others.instance_id)
