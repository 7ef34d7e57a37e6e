"""boto3 against a played EC2: the very requests that are sent, and what comes back."""

from __future__ import annotations

import hashlib
import re
import uuid
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from pytest_django import Settings

from benchmarking.hosts.ec2.api import Ec2Api, InstanceView
from benchmarking.hosts.ec2.errors import Ec2Error, ErrorClass
from benchmarking.hosts.ec2.request import Image, build_request, client_token, launch_tags
from benchmarking.tests.cloud.conftest import WORKER_CIDR
from benchmarking.tests.cloud.front import IMAGE_ID, CloudFront

JOB_ID = uuid.UUID("11111111-2222-4333-8444-555555555555")
DEADLINE = datetime(2026, 5, 1, 13, 10, tzinfo=UTC)
USER_DATA = b"#cloud-config\n"


@pytest.fixture
def api(front: CloudFront) -> Ec2Api:
    return Ec2Api("us-east-1")


def request_in(
    api: Ec2Api, *, zone: int = 0, attempt: int = 1, is_spot: bool = False
) -> dict[str, Any]:
    place = api.list_places("g4dn.xlarge", ())[zone]
    group = api.ensure_security_group(
        vpc_id=place.vpc_id, deployment="test", worker_cidr=WORKER_CIDR, port=22
    )
    return build_request(
        place=place,
        instance_type="g4dn.xlarge",
        image=api.find_image("", "/aws/service/deeplearning/ami/x86_64/any/latest/ami-id"),
        security_group_id=group,
        token=client_token(
            deployment="test",
            job_id=JOB_ID,
            attempt=attempt,
            zone=place.zone,
            instance_type="g4dn.xlarge",
        ),
        tags=launch_tags(deployment="test", job_id=JOB_ID, attempt=attempt, expires_at=DEADLINE),
        is_spot=is_spot,
    )


def launch(api: Ec2Api, **values: Any) -> InstanceView:
    return api.run(request_in(api, **values), USER_DATA)


def error_of(api: Ec2Api, **values: Any) -> Ec2Error:
    with pytest.raises(Ec2Error) as caught:
        launch(api, **values)
    return caught.value


TAGS = {
    "Name": "epochcast test",
    "epochcast:deployment": "test",
    "epochcast:job": str(JOB_ID),
    "epochcast:attempt": "1",
    "epochcast:expires-at": "2026-05-01T13:10:00+00:00",
}


def test_r2_r3_r9_whole_request_as_it_is_sent(front: CloudFront, api: Ec2Api) -> None:
    request = request_in(api)
    view = api.run(request, USER_DATA)

    sent = dict(front.calls_of("RunInstances")[0].parameters)
    flat_tags = {}
    for number, kind in enumerate(("instance", "volume", "network-interface"), start=1):
        flat_tags[f"TagSpecification.{number}.ResourceType"] = kind
        for tag, (key, value) in enumerate(TAGS.items(), start=1):
            flat_tags[f"TagSpecification.{number}.Tag.{tag}.Key"] = key
            flat_tags[f"TagSpecification.{number}.Tag.{tag}.Value"] = value
    assert sent == {
        "Action": "RunInstances",
        "Version": "2016-11-15",
        "MinCount": "1",
        "MaxCount": "1",
        "ClientToken": request["ClientToken"],
        "ImageId": IMAGE_ID,
        "InstanceType": "g4dn.xlarge",
        "SubnetId": request["SubnetId"],
        "SecurityGroupId.1": request["SecurityGroupIds"][0],
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions.HttpTokens": "required",
        "MetadataOptions.HttpPutResponseHopLimit": "1",
        "MetadataOptions.HttpEndpoint": "enabled",
        "MetadataOptions.InstanceMetadataTags": "disabled",
        "BlockDeviceMapping.1.DeviceName": "/dev/sda1",
        "BlockDeviceMapping.1.Ebs.DeleteOnTermination": "true",
        "UserData": "I2Nsb3VkLWNvbmZpZwo=",
        **flat_tags,
    }
    assert (view.state, view.zone, view.tags) == ("pending", "us-east-1a", TAGS)
    assert view.client_token == request["ClientToken"]
    assert view.address == "127.0.0.2"


def test_r3_spot_instance_is_asked_for_once_and_its_request_is_tagged(
    front: CloudFront, api: Ec2Api
) -> None:
    view = launch(api, is_spot=True)

    sent = front.calls_of("RunInstances")[0].parameters
    options = {name: value for name, value in sent.items() if "MarketOptions" in name}
    assert options == {
        "InstanceMarketOptions.MarketType": "spot",
        "InstanceMarketOptions.SpotOptions.SpotInstanceType": "one-time",
        "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior": "terminate",
    }
    assert front.launches[view.id].tags_of("spot-instances-request") == TAGS


def test_r3_disks_are_gone_with_the_instance(front: CloudFront, api: Ec2Api) -> None:
    view = launch(api)
    ec2 = boto3.client("ec2", region_name="us-east-1", endpoint_url=front.url)
    assert len(ec2.describe_volumes()["Volumes"]) == 1

    api.terminate(view.id)
    assert ec2.describe_volumes()["Volumes"] == []


def test_r1_same_token_gives_the_same_instance(front: CloudFront, api: Ec2Api) -> None:
    request = request_in(api)
    assert api.run(request, USER_DATA).id == api.run(request, USER_DATA).id
    assert len(front.live()) == 1

    with pytest.raises(Ec2Error) as caught:
        api.run(request, b"other")
    assert caught.value.error_class is ErrorClass.BUG

    api.terminate(front.live()[0].instance_id)
    with pytest.raises(Ec2Error) as caught:
        api.run(request, USER_DATA)
    assert caught.value.error_class is ErrorClass.USED_UP


@pytest.mark.parametrize("loss", ["drop_answer", "truncate_answer"])
def test_r1_lost_answer_leaves_an_instance_that_its_token_finds(
    front: CloudFront, api: Ec2Api, loss: str
) -> None:
    request = request_in(api)
    getattr(front, loss)(times=2)

    with pytest.raises(Ec2Error) as caught:
        api.run(request, USER_DATA)
    error = caught.value
    assert (error.error_class, error.is_certain) == (ErrorClass.TRANSIENT, False)

    (made,) = front.live()
    found = api.find_by_token(request["ClientToken"])
    assert found is not None
    assert found.id == made.instance_id
    assert api.find_by_token("0" * 64) is None


def test_r5_error_that_boto3_has_repeated_is_not_certain(front: CloudFront, api: Ec2Api) -> None:
    front.plan_error("InsufficientInstanceCapacity", "None left.", times=2)
    error = error_of(api)
    assert (error.error_class, error.is_certain) == (ErrorClass.CAPACITY, False)
    assert str(error) == "InsufficientInstanceCapacity (RunInstances in us-east-1): None left."

    front.plan_error("VcpuLimitExceeded", zone="us-east-1b")
    assert launch(api).zone == "us-east-1a"
    error = error_of(api, zone=1)
    assert (error.error_class, error.is_certain) == (ErrorClass.QUOTA, True)


def test_r5_no_credentials_is_one_line(
    api: Ec2Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))

    with pytest.raises(Ec2Error) as caught:
        api.find("i-00000000000000001")
    assert caught.value.error_class is ErrorClass.CREDENTIALS
    assert str(caught.value) == (
        "NoCredentials (DescribeInstances in us-east-1): no AWS credentials; set "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
    )


def test_r5_endpoint_that_nobody_serves_is_transient(front: CloudFront, settings: Settings) -> None:
    settings.EC2_ENDPOINT_URL = "http://127.0.0.1:9"
    with pytest.raises(Ec2Error) as caught:
        Ec2Api("us-east-1").find("i-00000000000000001")
    assert (caught.value.error_class, caught.value.is_certain) == (ErrorClass.TRANSIENT, False)


def test_r17_hidden_and_forgotten_instances_are_not_found(front: CloudFront, api: Ec2Api) -> None:
    front.new_hidden_calls = 2
    front.new_boot_calls = 1
    view = launch(api)
    assert api.find(view.id) is None
    assert list(api.list_deployment("test")) == []
    states = [found.state for found in (api.find(view.id), api.find(view.id)) if found]
    assert states[-1] == "running"

    front.forget(view.id)
    assert api.find(view.id) is None
    api.terminate(view.id)


def test_r17_end_takes_time_and_may_be_asked_for_twice(front: CloudFront, api: Ec2Api) -> None:
    front.new_shutdown_calls = 1
    view = launch(api)
    api.terminate(view.id)
    api.terminate(view.id)

    first, second = api.find(view.id), api.find(view.id)
    assert first is not None
    assert second is not None
    assert (first.state, first.is_alive, first.is_over) == ("shutting-down", False, False)
    assert (second.state, second.is_over) == ("terminated", True)
    assert "User initiated" in second.reason
    api.terminate("i-0123456789abcdef0")


def test_r15_interruption_is_told_from_a_death(front: CloudFront, api: Ec2Api) -> None:
    taken, died = launch(api, is_spot=True), launch(api, attempt=2)
    front.interrupt(taken.id)
    front.die(died.id)

    found = {view.id: view for view in api.list_deployment("test")}
    assert found[taken.id].is_interrupted
    assert not found[died.id].is_interrupted
    assert found[died.id].reason.startswith("Client.InstanceInitiatedShutdown")


def test_r18_list_reads_all_pages_of_this_deployment_only(front: CloudFront, api: Ec2Api) -> None:
    front.page_size = 2
    for attempt in range(1, 6):
        launch(api, attempt=attempt)
    front.launch_by_hand(tags={"epochcast:deployment": "other"})
    front.launch_by_hand(region="eu-west-1", tags={"epochcast:deployment": "test"})

    views = list(api.list_deployment("test"))
    assert sorted(view.tags["epochcast:attempt"] for view in views) == list("12345")
    assert len(front.calls_of("DescribeInstances")) == 3


def test_r9_group_lets_only_the_worker_in_and_is_made_once(front: CloudFront, api: Ec2Api) -> None:
    vpc_id = api.list_places("g4dn.xlarge", ())[0].vpc_id
    arguments = {"vpc_id": vpc_id, "deployment": "test", "port": 22}

    made = api.ensure_security_group(worker_cidr=WORKER_CIDR, **arguments)
    assert api.ensure_security_group(worker_cidr=WORKER_CIDR, **arguments) == made
    assert len(front.calls_of("CreateSecurityGroup")) == 1
    assert api.ensure_security_group(worker_cidr="2001:db8::7/128", **arguments) != made

    ec2 = boto3.client("ec2", region_name="us-east-1", endpoint_url=front.url)
    (group,) = ec2.describe_security_groups(GroupIds=[made])["SecurityGroups"]
    (rule,) = group["IpPermissions"]
    assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 22, 22)
    assert [source["CidrIp"] for source in rule["IpRanges"]] == [WORKER_CIDR]
    assert {"Key": "epochcast:deployment", "Value": "test"} in group["Tags"]

    # Somebody opens it to the world.
    ec2.authorize_security_group_ingress(
        GroupId=made, IpProtocol="tcp", FromPort=22, ToPort=22, CidrIp="0.0.0.0/0"
    )
    with pytest.raises(Ec2Error, match=rf"{made} .* lets in more than {WORKER_CIDR}") as caught:
        api.ensure_security_group(worker_cidr=WORKER_CIDR, **arguments)
    assert caught.value.error_class is ErrorClass.CONFIGURATION


def test_r9_group_that_another_worker_makes_meanwhile_is_used(
    front: CloudFront, api: Ec2Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    vpc_id = api.list_places("g4dn.xlarge", ())[0].vpc_id
    arguments = {
        "vpc_id": vpc_id,
        "deployment": "test",
        "worker_cidr": WORKER_CIDR,
        "port": 22,
    }
    made = api.ensure_security_group(**arguments)
    find = Ec2Api._find_security_group
    looks: list[str] = []

    def find_at_the_second_look(self: Ec2Api, vpc_id: str, name: str) -> dict[str, Any] | None:
        looks.append(name)
        return find(self, vpc_id, name) if len(looks) > 1 else None

    monkeypatch.setattr(Ec2Api, "_find_security_group", find_at_the_second_look)
    assert api.ensure_security_group(**arguments) == made


def test_image_comes_from_a_parameter_or_by_its_id(front: CloudFront, api: Ec2Api) -> None:
    assert api.find_image("", "/aws/service/deeplearning/any") == Image(IMAGE_ID, ("/dev/sda1",))
    assert api.find_image("ami-760aaa0f", "").ebs_devices == ("/dev/xvda",)
    for image_id, parameter, code in (
        ("ami-0123456789abcdef0", "", "InvalidAMIID.NotFound"),
        ("", "/no/such/parameter", "ParameterNotFound"),
    ):
        with pytest.raises(Ec2Error) as caught:
            api.find_image(image_id, parameter)
        assert (caught.value.code, caught.value.error_class) == (code, ErrorClass.CONFIGURATION)


def test_places_are_the_zones_that_offer_the_type(front: CloudFront, api: Ec2Api) -> None:
    zones = [place.zone for place in api.list_places("g4dn.xlarge", ())]
    assert zones == sorted(zones)
    assert "us-east-1a" in zones
    # Zone e has none of them.
    assert "us-east-1e" not in zones
    assert api.list_places("no.suchtype", ()) == []

    subnet = api.list_places("g4dn.xlarge", ())[1].subnet_id
    (place,) = api.list_places("g4dn.xlarge", (subnet,))
    assert (place.subnet_id, place.zone) == (subnet, "us-east-1b")


def test_token_is_ascii_short_and_another_for_each_launch() -> None:
    def token(**changes: Any) -> str:
        values = {
            "deployment": "test",
            "job_id": JOB_ID,
            "attempt": 1,
            "zone": "us-east-1a",
            "instance_type": "g4dn.xlarge",
        }
        return client_token(**{**values, **changes})

    text = f"test\n{JOB_ID}\n1\nus-east-1a\ng4dn.xlarge"
    assert token() == hashlib.sha256(text.encode()).hexdigest()
    assert re.fullmatch(r"[0-9a-f]{64}", token())
    others = {
        token(deployment="other"),
        token(job_id=uuid.uuid4()),
        token(attempt=2),
        token(zone="us-east-1b"),
        token(instance_type="g4dn.2xlarge"),
    }
    assert len(others | {token()}) == 6
