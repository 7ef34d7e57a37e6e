"""AWS's answers as text: errors, and descriptions that leave instances out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from typing import Any


def scope_of(environ: Mapping[str, Any]) -> tuple[str, str]:
    """Region and service that a request is signed for."""
    match = re.search(
        r"Credential=[^/]*/\d+/([^/]+)/([^/]+)/", environ.get("HTTP_AUTHORIZATION", "")
    )
    return (match.group(1), match.group(2)) if match else ("us-east-1", "ec2")


def error_answer(code: str, message: str) -> bytes:
    return (
        f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
        "<RequestID>00000000-0000-0000-0000-000000000000</RequestID></Response>"
    ).encode()


def parse_answer(answer: bytes) -> tuple[ET.Element, str]:
    root = ET.fromstring(answer)
    namespace = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
    if namespace:
        ET.register_namespace("", namespace[1:-1])
    return root, namespace


def without_instances(answer: bytes, instance_ids: set[str]) -> bytes:
    """A description without some instances."""
    root, namespace = parse_answer(answer)
    for reservations in root.iter(f"{namespace}reservationSet"):
        for reservation in list(reservations):
            found = {element.text for element in reservation.iter(f"{namespace}instanceId")}
            if found & instance_ids:
                reservations.remove(reservation)
    return ET.tostring(root)


def instance_ids(parameters: Mapping[str, str]) -> list[str]:
    return [value for name, value in parameters.items() if name.startswith("InstanceId.")]


def regions_answer(regions: Iterable[str]) -> bytes:
    """What DescribeRegions says."""
    items = "".join(f"<item><regionName>{region}</regionName></item>" for region in regions)
    return (
        f"<DescribeRegionsResponse><regionInfo>{items}</regionInfo></DescribeRegionsResponse>"
    ).encode()
