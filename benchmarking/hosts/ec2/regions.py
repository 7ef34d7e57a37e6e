"""The regions of EC2 as boto3's own catalogue lists them, read without boto3 and without asking.

Settings name regions and are read by every process, of which most have no use for boto3.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path


@cache
def known_regions() -> tuple[str, ...]:
    """All regions of EC2 in all of AWS's partitions, sorted."""
    spec = find_spec("botocore")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("botocore is not installed: script/setup installs it")
    path = Path(spec.origin).with_name("data") / "endpoints.json"
    partitions = json.loads(path.read_bytes())["partitions"]
    # Endpoints that are no regions serve FIPS and the like.
    return tuple(
        sorted(
            name
            for partition in partitions
            for name in partition["services"].get("ec2", {}).get("endpoints", {})
            if name in partition["regions"]
        )
    )
