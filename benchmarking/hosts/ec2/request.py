"""What RunInstances is asked for, and the names by which its instances are found again."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

DEPLOYMENT_TAG = "epochcast:deployment"
JOB_TAG = "epochcast:job"
ATTEMPT_TAG = "epochcast:attempt"
EXPIRES_AT_TAG = "epochcast:expires-at"


@dataclass(frozen=True, slots=True)
class Image:
    """A machine image, and the EBS devices that an instance of it gets."""

    id: str
    ebs_devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A zone of a region that offers the instance type, and the subnet to launch into there."""

    region: str
    zone: str
    subnet_id: str
    vpc_id: str


def client_token(
    *, deployment: str, job_id: uuid.UUID, attempt: int, zone: str, instance_type: str
) -> str:
    """The token that makes a launch happen at most once: 64 hexadecimal digits.

    Whoever repeats the launch, in whatever process, comes to the same token.
    """
    parts = "\n".join((deployment, str(job_id), str(attempt), zone, instance_type))
    return hashlib.sha256(parts.encode()).hexdigest()


def launch_tags(
    *, deployment: str, job_id: uuid.UUID, attempt: int, expires_at: datetime
) -> dict[str, str]:
    """The tags of an instance and of all that belongs to it."""
    return {
        "Name": f"epochcast {deployment}",
        DEPLOYMENT_TAG: deployment,
        JOB_TAG: str(job_id),
        ATTEMPT_TAG: str(attempt),
        EXPIRES_AT_TAG: expires_at.astimezone(UTC).isoformat(timespec="seconds"),
    }


def build_request(
    *,
    place: Place,
    instance_type: str,
    image: Image,
    security_group_id: str,
    token: str,
    tags: dict[str, str],
    is_spot: bool,
) -> dict[str, Any]:
    """The arguments of RunInstances but the user data, as JSON.

    The instance gets no role in the account (no instance profile), answers its metadata only to
    processes of its own with a session token, and is terminated, with all its disks, when it
    switches itself off.
    """
    request: dict[str, Any] = {
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": token,
        "ImageId": image.id,
        "InstanceType": instance_type,
        "SubnetId": place.subnet_id,
        "SecurityGroupIds": [security_group_id],
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 1,
            "HttpEndpoint": "enabled",
            "InstanceMetadataTags": "disabled",
        },
        "BlockDeviceMappings": [
            {"DeviceName": device, "Ebs": {"DeleteOnTermination": True}}
            for device in image.ebs_devices
        ],
        "TagSpecifications": _tag_specifications(("instance", "volume", "network-interface"), tags),
    }
    if is_spot:
        request["InstanceMarketOptions"] = {
            "MarketType": "spot",
            "SpotOptions": {
                "SpotInstanceType": "one-time",
                "InstanceInterruptionBehavior": "terminate",
            },
        }
        request["TagSpecifications"] += _tag_specifications(("spot-instances-request",), tags)
    return request


def _tag_specifications(kinds: Sequence[str], tags: dict[str, str]) -> list[dict[str, Any]]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": pairs} for kind in kinds]
