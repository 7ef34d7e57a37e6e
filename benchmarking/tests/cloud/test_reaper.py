"""The reaper: both directions, every region, our tag only, a grace period for the young."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone
from pytest_django import Settings

from benchmarking.apps import BenchmarkingConfig
from benchmarking.hosts.base import HostUnavailableError
from benchmarking.hosts.ec2.api import InstanceView
from benchmarking.hosts.ec2.errors import Ec2Error
from benchmarking.jobs import reaper
from benchmarking.jobs.lifecycle import State
from benchmarking.jobs.reaper import GRACE, ReapReport, reap_instances
from benchmarking.models import BenchmarkJob, CloudInstance
from benchmarking.tasks import reap_cloud_instances
from benchmarking.tests.cloud.fake_api import FakeEc2, refusal
from benchmarking.tests.cloud.front import CloudFront
from benchmarking.tests.cloud.worker import Worker, only_row
from benchmarking.tests.jobs.driving import Travel

pytestmark = pytest.mark.django_db


def reap(cloud: FakeEc2) -> ReapReport:
    return reap_instances(cloud.api_of)


def stranger(cloud: FakeEc2, *, region: str = "us-east-1", deployment: str = "test") -> str:
    """An instance that no row knows."""
    view = InstanceView(
        id=f"i-{len(cloud.instances) + 100:017x}",
        state="running",
        region=region,
        zone=f"{region}a",
        instance_type="g4dn.xlarge",
        launched_at=timezone.now(),
        client_token="",
        address="127.0.0.99",
        tags={"epochcast:deployment": deployment},
        reason_code="",
        reason="",
    )
    cloud.instances[view.id] = view
    return view.id


def end_job(worker: Worker, state: State = State.FAILED) -> None:
    BenchmarkJob.objects.filter(pk=worker.job.pk).update(state=state)


def test_r18_r19_unknown_instance_is_ended_after_the_grace_period(
    cloud: FakeEc2, clock: Travel, settings: Settings
) -> None:
    settings.EC2_REGIONS = ["us-east-1"]
    instance_id = stranger(cloud)
    clock.shift(GRACE - timedelta(seconds=1))
    assert reap(cloud) == ReapReport()
    assert len(cloud.live) == 1

    clock.shift(timedelta(seconds=1))
    assert reap(cloud).ended == [f"{instance_id} (g4dn.xlarge in us-east-1a): nobody here knows it"]
    assert cloud.live == []
    assert reap(cloud) == ReapReport()


def test_r18_stopped_instance_costs_its_disk_and_is_ended_too(
    cloud: FakeEc2, clock: Travel, settings: Settings
) -> None:
    settings.EC2_REGIONS = ["us-east-1"]
    instance_id = stranger(cloud)
    cloud.change(instance_id, state="stopped")
    clock.shift(GRACE)
    assert len(reap(cloud).ended) == 1
    assert cloud.live == []


def test_r18_instance_of_another_deployment_is_left_alone(
    cloud: FakeEc2, clock: Travel, settings: Settings
) -> None:
    settings.EC2_REGIONS = ["us-east-1"]
    stranger(cloud, deployment="somebody else's")
    clock.shift(timedelta(days=1))
    assert reap(cloud) == ReapReport()
    assert len(cloud.live) == 1


def test_r18_region_that_is_no_longer_allowed_is_watched_on(
    worker: Worker, settings: Settings, clock: Travel
) -> None:
    settings.EC2_REGIONS = ["eu-west-1"]
    assert worker.acquire()
    settings.EC2_REGIONS = ["us-east-1"]
    end_job(worker)
    clock.shift(GRACE)

    assert "its job has ended" in reap(worker.cloud).ended[0]
    assert worker.cloud.live == []
    assert only_row().state == "terminated"


def test_r18_instance_of_a_job_under_way_is_left_alone(worker: Worker, clock: Travel) -> None:
    worker.boot()
    clock.shift(timedelta(minutes=30))
    assert reap(worker.cloud) == ReapReport()
    assert only_row().state == "running"


def test_r18_instance_past_its_time_is_ended_whatever_its_job_does(
    worker: Worker, clock: Travel
) -> None:
    worker.boot()
    clock.shift(timedelta(minutes=70, seconds=1))

    assert "it is past its time" in reap(worker.cloud).ended[0]
    row = only_row()
    # 70 minutes and a second at half a dollar.
    assert (row.state, row.cost_usd) == ("terminated", Decimal("0.583473"))


def test_r18_launch_whose_answer_was_lost_is_left_to_its_launcher(
    worker: Worker, clock: Travel
) -> None:
    """R19: reaper and launcher must not fight over an instance."""
    worker.cloud.lost_answers = 1
    with pytest.raises(HostUnavailableError):
        worker.acquire()
    clock.shift(timedelta(minutes=20))
    assert reap(worker.cloud) == ReapReport()

    assert worker.acquire()
    assert only_row().state == "pending"


def test_r18_launch_whose_answer_was_lost_ends_with_its_job(worker: Worker, clock: Travel) -> None:
    worker.cloud.lost_answers = 1
    with pytest.raises(HostUnavailableError):
        worker.acquire()
    end_job(worker)
    clock.shift(GRACE)

    report = reap(worker.cloud)
    assert worker.cloud.live == []
    row = only_row()
    assert (row.state, row.instance_id) == ("terminated", "i-00000000000000001")
    assert len(report.ended) == len(report.closed) == 1


def test_r18_intent_of_an_ended_job_that_was_never_carried_out_is_closed(
    worker: Worker, clock: Travel
) -> None:
    worker.cloud.errors = [refusal("RequestLimitExceeded")]
    with pytest.raises(HostUnavailableError):
        worker.acquire()
    end_job(worker)
    assert reap(worker.cloud) == ReapReport()

    clock.shift(timedelta(seconds=121))
    assert reap(worker.cloud).closed == ["us-east-1a: terminated"]
    assert only_row().cost_usd == 0


@pytest.mark.parametrize("forgotten", [False, True])
def test_r18_row_whose_instance_is_gone_is_closed_and_settled(
    worker: Worker, clock: Travel, forgotten: bool
) -> None:
    worker.boot()
    clock.shift(timedelta(minutes=12))
    instance_id = only_row().instance_id
    if forgotten:
        worker.cloud.hidden = {instance_id}
    else:
        worker.cloud.change(instance_id, state="terminated", reason="It switched itself off.")

    state = "lost" if forgotten else "terminated"
    assert reap(worker.cloud).closed == [f"{instance_id}: {state}"]
    row = only_row()
    assert (row.state, row.cost_usd) == (state, Decimal("0.1"))


def test_r19_young_row_that_ec2_does_not_show_yet_is_left_alone(worker: Worker) -> None:
    assert worker.acquire()
    worker.cloud.hidden = set(worker.cloud.instances)
    assert reap(worker.cloud) == ReapReport()
    assert only_row().state == "pending"


def test_r18_list_that_lags_behind_is_asked_again_by_id(
    worker: Worker, clock: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.boot()
    clock.shift(timedelta(minutes=12))
    api = type(worker.cloud.api_of("us-east-1"))
    monkeypatch.setattr(api, "list_deployment", lambda self, deployment: iter(()))
    assert reap(worker.cloud) == ReapReport()
    assert only_row().state == "running"


def test_r18_lost_instance_that_shows_again_is_ended(worker: Worker, clock: Travel) -> None:
    worker.boot()
    clock.shift(timedelta(minutes=12))
    worker.cloud.hidden = {only_row().instance_id}
    reap(worker.cloud)
    worker.cloud.hidden = set()
    clock.shift(timedelta(minutes=12))

    assert "it was taken for gone" in reap(worker.cloud).ended[0]
    row = only_row()
    assert (row.state, row.cost_usd) == ("terminated", Decimal("0.2"))


def test_r17_end_that_was_asked_for_is_asked_for_again(worker: Worker, clock: Travel) -> None:
    worker.boot()
    worker.cloud.ends_slowly = True
    worker.clean_up()
    assert not worker.release()
    reap(worker.cloud)
    assert worker.cloud.calls.count("terminate") == 2
    worker.cloud.change(only_row().instance_id, state="terminated")

    assert len(reap(worker.cloud).closed) == 1
    assert only_row().state == "terminated"


def test_r18_region_that_does_not_answer_does_not_hide_the_others(
    cloud: FakeEc2, clock: Travel, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EC2_REGIONS = ["us-east-1", "eu-west-1"]
    stranger(cloud, region="eu-west-1")
    clock.shift(GRACE)

    def api_of(region: str):
        api = cloud.api_of(region)
        if region == "us-east-1":

            def refuse(deployment: str) -> None:
                raise Ec2Error("AuthFailure", "Wrong key.", region=region, is_certain=True)

            monkeypatch.setattr(api, "list_deployment", refuse)
        return api

    report = reap_instances(api_of)
    assert report.failed == ["us-east-1: AuthFailure (us-east-1): Wrong key."]
    assert len(report.ended) == 1


def test_r21_reaper_works_while_benchmarks_are_off(
    front: CloudFront, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """The task itself, through boto3, over several pages and regions."""
    settings.BENCHMARKS_ENABLED = False
    settings.EC2_REGIONS = ["us-east-1", "eu-west-1"]
    front.page_size = 1
    for region in ("us-east-1", "us-east-1", "eu-west-1"):
        front.launch_by_hand(region=region, tags={"epochcast:deployment": "test"})
    other = front.launch_by_hand(tags={"epochcast:deployment": "other"})

    reap_cloud_instances()
    assert len(front.live()) == 4

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reaper, "GRACE", timedelta(0))
        reap_cloud_instances()
    assert front.live() == [other]
    assert caplog.text.count("nobody here knows it") == 3


def test_reaper_asks_nobody_where_no_cloud_is_used() -> None:
    def refuse(region: str) -> None:
        pytest.fail(f"{region} was asked")

    assert reap_instances(refuse) == ReapReport()


def test_reaper_runs_every_five_minutes_beside_the_benchmarks() -> None:
    (entry,) = (
        entry
        for entry in BenchmarkingConfig.beat_schedule.values()
        if entry["task"] == reap_cloud_instances.name
    )
    assert (entry["schedule"], entry["options"]["queue"]) == (300.0, "maintenance")


def test_reaper_costs_few_queries_however_many_rows_there_are(
    worker: Worker, django_assert_max_num_queries
) -> None:
    worker.boot()
    row = only_row()
    CloudInstance.objects.bulk_create(
        CloudInstance(
            job=row.job,
            attempt=number,
            state="terminated",
            region="us-east-1",
            zone="us-east-1a",
            instance_type="g4dn.xlarge",
            client_token=f"{number}",
            request={},
            user_data_sha256="",
            usd_per_hour=1,
            reserved_usd=1,
            cost_usd=0,
            expires_at=row.expires_at,
        )
        for number in range(2, 200)
    )
    with django_assert_max_num_queries(4):
        reap(worker.cloud)
