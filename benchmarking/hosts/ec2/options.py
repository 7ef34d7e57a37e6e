"""The settings of this installation for EC2, as a launch needs them."""

from __future__ import annotations

import secrets
from pathlib import Path

from django.conf import settings

from benchmarking.kept_values import kept_value
from benchmarking.models import CloudInstance, Machine

PROVIDER = "aws"
_DEPLOYMENT_FILE = "deployment"


def deployment_name() -> str:
    """The name in our tags: what bears another one is never touched.

    The setting ``DEPLOYMENT``, else one that is made once and kept with this installation's data.
    """
    if settings.DEPLOYMENT:
        return str(settings.DEPLOYMENT)
    path = Path(settings.VAR_DIR) / _DEPLOYMENT_FILE
    return kept_value(path, lambda: f"d{secrets.token_hex(5)}")


def launch_regions(machine: Machine) -> tuple[str, ...]:
    """Where a machine may be launched, in the order in which regions are tried.

    Empty where no region is set and the catalogue names none for the machine.
    """
    return tuple(settings.EC2_REGIONS) or tuple(filter(None, [machine.region]))


def watched_regions() -> list[str]:
    """Where instances of ours may be: allowed regions, and all that ever had one."""
    used = CloudInstance.objects.order_by("region").values_list("region", flat=True).distinct()
    return list(dict.fromkeys([*settings.EC2_REGIONS, *used]))


def image_id(region: str) -> str:
    """The image set for a region or for all; empty where the SSM parameter decides."""
    return str(settings.EC2_IMAGE.get(region) or settings.EC2_IMAGE.get("") or "")


def subnet_ids(region: str) -> tuple[str, ...]:
    """The subnets set for a region; none means each zone's default one."""
    return tuple(settings.EC2_SUBNETS.get(region, ()))
