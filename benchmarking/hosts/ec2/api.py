"""EC2 as a job needs it; the only module of this package that knows boto3.

Every call ends within a minute, whatever the network does, and raises ``Ec2Error``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any

import boto3
import botocore.loaders
import botocore.session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
)
from botocore.parsers import ResponseParserError
from django.conf import settings

from benchmarking.hosts.ec2.errors import Ec2Error, ErrorClass
from benchmarking.hosts.ec2.request import DEPLOYMENT_TAG, Image, Place

# Two tries of at most 19 seconds each: a step has a minute, and the next step tries again.
_CONFIG = Config(
    connect_timeout=4, read_timeout=15, retries={"mode": "standard", "total_max_attempts": 2}
)
_NO_CREDENTIALS = (
    "no AWS credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
)
SPOT_REASON = "Server.SpotInstanceTermination"
"""Stands in the reason of an instance that AWS took back."""


@dataclass(frozen=True, slots=True)
class InstanceView:
    """What EC2 says of an instance.

    ``address`` is the public one, or the private one where it has no other; ``reason`` is why it
    is in its state, empty where nobody said.
    """

    id: str
    state: str
    region: str
    zone: str
    instance_type: str
    launched_at: datetime
    client_token: str
    address: str
    tags: Mapping[str, str]
    reason_code: str
    reason: str

    @property
    def is_over(self) -> bool:
        """Whether it has ended for good and costs nothing any more."""
        return self.state == "terminated"

    @property
    def is_alive(self) -> bool:
        """Whether it runs or is about to; a stopped one never runs again for us."""
        return self.state in ("pending", "running")

    @property
    def is_interrupted(self) -> bool:
        """Whether AWS took it back, as it may with a spot instance."""
        return self.reason_code == SPOT_REASON


class Ec2Api:
    """EC2 in one region, with the credentials that boto3 finds."""

    def __init__(self, region: str) -> None:
        self.region = region

    def run(self, request: Mapping[str, Any], user_data: bytes) -> InstanceView:
        """Launch one instance, or return the one that this token has launched already."""
        with self._errors("RunInstances"):
            # boto3 encodes user data itself.
            answer = self._ec2.run_instances(**request, UserData=user_data)
        return self._view(answer["Instances"][0])

    def list_regions(self) -> list[str]:
        """All regions that the account may use."""
        with self._errors("DescribeRegions"):
            regions = self._ec2.describe_regions()["Regions"]
        return sorted(region["RegionName"] for region in regions)

    def find(self, instance_id: str) -> InstanceView | None:
        """The instance, or ``None`` where EC2 does not know it (yet, or any more)."""
        try:
            return next(self._describe(InstanceIds=[instance_id]), None)
        except Ec2Error as error:
            if error.error_class is ErrorClass.NOT_FOUND:
                return None
            raise

    def find_by_token(self, token: str) -> InstanceView | None:
        """The instance that a launch with ``token`` made, whatever its state."""
        return next(self._describe(Filters=[{"Name": "client-token", "Values": [token]}]), None)

    def list_deployment(self, deployment: str) -> Iterator[InstanceView]:
        """All instances with the tag of ``deployment``, page by page, terminated ones too."""
        return self._describe(Filters=[{"Name": f"tag:{DEPLOYMENT_TAG}", "Values": [deployment]}])

    def terminate(self, instance_id: str) -> None:
        """Ask for the end of an instance; asking again, or for one that is gone, does no harm."""
        try:
            with self._errors("TerminateInstances"):
                self._ec2.terminate_instances(InstanceIds=[instance_id])
        except Ec2Error as error:
            if error.error_class is not ErrorClass.NOT_FOUND:
                raise

    def find_image(self, image_id: str, parameter: str) -> Image:
        """The image ``image_id`` or, if that is empty, the one that an SSM parameter names."""
        if not image_id:
            with self._errors("GetParameter"):
                answer = self._client("ssm").get_parameter(Name=parameter)
            image_id = answer["Parameter"]["Value"]
        with self._errors("DescribeImages"):
            images = self._ec2.describe_images(ImageIds=[image_id])["Images"]
        if not images:
            raise self._refusal("InvalidAMIID.NotFound", f"there is no image {image_id}")
        devices = images[0].get("BlockDeviceMappings", [])
        return Image(image_id, tuple(d["DeviceName"] for d in devices if "Ebs" in d))

    def list_places(self, instance_type: str, subnet_ids: tuple[str, ...]) -> list[Place]:
        """Where the type can be launched: in the subnets given, else in the zones' default ones.

        Empty where the region does not offer the type.
        """
        with self._errors("DescribeInstanceTypeOfferings"):
            offerings = self._ec2.describe_instance_type_offerings(
                LocationType="availability-zone",
                Filters=[{"Name": "instance-type", "Values": [instance_type]}],
            )["InstanceTypeOfferings"]
        zones = {offering["Location"] for offering in offerings}
        which: dict[str, Any] = (
            {"SubnetIds": list(subnet_ids)}
            if subnet_ids
            else {"Filters": [{"Name": "default-for-az", "Values": ["true"]}]}
        )
        with self._errors("DescribeSubnets"):
            subnets = self._ec2.describe_subnets(**which)["Subnets"]
        places = (
            Place(
                region=self.region,
                zone=subnet["AvailabilityZone"],
                subnet_id=subnet["SubnetId"],
                vpc_id=subnet["VpcId"],
            )
            for subnet in subnets
        )
        by_zone = {place.zone: place for place in places if place.zone in zones}
        return [by_zone[zone] for zone in sorted(by_zone)]

    def ensure_security_group(
        self, *, vpc_id: str, deployment: str, worker_cidr: str, port: int
    ) -> str:
        """The id of a group that lets only ``worker_cidr`` in, and only to ``port``.

        Made where there is none. Raises a configuration error where somebody has opened it
        further: a machine behind it could be reached by others.
        """
        name = f"epochcast-{deployment}-{worker_cidr.replace('/', '-').replace(':', '.')}-{port}"
        group = self._find_security_group(vpc_id, name) or self._create_security_group(
            vpc_id, name, deployment
        )
        rules = group["IpPermissions"]
        if not rules:
            self._open_port(group["GroupId"], worker_cidr, port)
        elif _openings(rules) != {("tcp", port, port, worker_cidr)}:
            raise self._refusal(
                "InvalidSecurityGroup",
                f"security group {group['GroupId']} ({name}) lets in more than {worker_cidr} to "
                f"port {port}; remove its other rules, or the group, which is then made again",
            )
        return str(group["GroupId"])

    def _find_security_group(self, vpc_id: str, name: str) -> dict[str, Any] | None:
        filters = [
            {"Name": "vpc-id", "Values": [vpc_id]},
            {"Name": "group-name", "Values": [name]},
        ]
        with self._errors("DescribeSecurityGroups"):
            groups = self._ec2.describe_security_groups(Filters=filters)["SecurityGroups"]
        return groups[0] if groups else None

    def _create_security_group(self, vpc_id: str, name: str, deployment: str) -> dict[str, Any]:
        tags = [{"Key": "Name", "Value": name}, {"Key": DEPLOYMENT_TAG, "Value": deployment}]
        try:
            with self._errors("CreateSecurityGroup"):
                answer = self._ec2.create_security_group(
                    VpcId=vpc_id,
                    GroupName=name,
                    Description="Epochcast workers to the machines that they launch",
                    TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
                )
        except Ec2Error as error:
            # Another worker was faster.
            found = self._find_security_group(vpc_id, name)
            if error.code != "InvalidGroup.Duplicate" or found is None:
                raise
            return found
        return {"GroupId": answer["GroupId"], "IpPermissions": []}

    def _open_port(self, group_id: str, worker_cidr: str, port: int) -> None:
        ranges: dict[str, Any] = (
            {"Ipv6Ranges": [{"CidrIpv6": worker_cidr}]}
            if ":" in worker_cidr
            else {"IpRanges": [{"CidrIp": worker_cidr}]}
        )
        rule = {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, **ranges}
        try:
            with self._errors("AuthorizeSecurityGroupIngress"):
                self._ec2.authorize_security_group_ingress(GroupId=group_id, IpPermissions=[rule])
        except Ec2Error as error:
            if error.code != "InvalidPermission.Duplicate":
                raise

    def _describe(self, **which: Any) -> Iterator[InstanceView]:
        with self._errors("DescribeInstances"):
            for page in self._ec2.get_paginator("describe_instances").paginate(**which):
                for reservation in page["Reservations"]:
                    for instance in reservation["Instances"]:
                        yield self._view(instance)

    def _view(self, instance: Mapping[str, Any]) -> InstanceView:
        reason = instance.get("StateReason", {})
        return InstanceView(
            id=instance["InstanceId"],
            state=instance["State"]["Name"],
            region=self.region,
            zone=instance.get("Placement", {}).get("AvailabilityZone", ""),
            instance_type=instance.get("InstanceType", ""),
            launched_at=instance["LaunchTime"],
            client_token=instance.get("ClientToken", ""),
            address=instance.get("PublicIpAddress") or instance.get("PrivateIpAddress") or "",
            tags={tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])},
            reason_code=reason.get("Code", ""),
            reason=reason.get("Message", "") or instance.get("StateTransitionReason", ""),
        )

    @cached_property
    def _ec2(self) -> Any:
        return self._client("ec2")

    def _client(self, service: str) -> Any:
        with self._errors("credentials"):
            session = botocore.session.get_session()
            session.register_component("data_loader", _descriptions_of_services())
            return boto3.session.Session(botocore_session=session).client(
                service,
                region_name=self.region,
                endpoint_url=settings.EC2_ENDPOINT_URL or None,
                config=_CONFIG,
            )

    def _refusal(self, code: str, message: str) -> Ec2Error:
        return Ec2Error(code, message, region=self.region, is_certain=True)

    @contextmanager
    def _errors(self, action: str) -> Iterator[None]:
        """Turn what boto3 raises into an ``Ec2Error``."""
        try:
            yield
        except ClientError as error:
            retries = error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0)
            raise Ec2Error(
                str(error.response["Error"].get("Code", "")),
                str(error.response["Error"].get("Message", "")),
                region=self.region,
                is_certain=retries == 0,
                action=action,
            ) from error
        except (NoCredentialsError, PartialCredentialsError, ProfileNotFound) as error:
            raise Ec2Error(
                "NoCredentials", _NO_CREDENTIALS, region=self.region, is_certain=True, action=action
            ) from error
        except ParamValidationError as error:
            raise Ec2Error(
                "InvalidParameter", str(error), region=self.region, is_certain=True, action=action
            ) from error
        except BotoCoreError as error:
            # Time-outs and resets: nobody knows whether it was carried out.
            raise self._no_answer(str(error), action) from error
        except ResponseParserError as error:
            raise self._no_answer("the answer is cut off or garbled", action) from error

    def _no_answer(self, message: str, action: str) -> Ec2Error:
        return Ec2Error(
            "RequestTimeout", message, region=self.region, is_certain=False, action=action
        )


@lru_cache
def _descriptions_of_services() -> Any:
    """Megabytes of JSON that are the same for all; credentials are looked up anew each time."""
    return botocore.loaders.create_loader()


def _openings(rules: list[dict[str, Any]]) -> set[tuple[str, int, int, str]]:
    """Who may reach what: protocol, first and last port, source."""
    openings = set()
    for rule in rules:
        sources = [entry["CidrIp"] for entry in rule.get("IpRanges", [])]
        sources += [entry["CidrIpv6"] for entry in rule.get("Ipv6Ranges", [])]
        sources += [entry["GroupId"] for entry in rule.get("UserIdGroupPairs", [])]
        sources += [entry["PrefixListId"] for entry in rule.get("PrefixListIds", [])]
        for source in sources:
            openings.add(
                (rule["IpProtocol"], rule.get("FromPort", 0), rule.get("ToPort", 65535), source)
            )
    return openings
