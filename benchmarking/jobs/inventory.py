"""Which of our instances live in the cloud, beside what the books say of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Q

from benchmarking.hosts.ec2 import options
from benchmarking.hosts.ec2.api import Ec2Api, InstanceView
from benchmarking.hosts.ec2.errors import Ec2Error
from benchmarking.hosts.ec2.launch import ApiOf
from benchmarking.hosts.ec2.request import JOB_TAG
from benchmarking.jobs import budget
from benchmarking.models import CloudInstance, Machine


@dataclass(frozen=True, slots=True)
class LiveInstance:
    """One instance that is not known to be over.

    ``row`` is ``None`` where nobody here knows the instance, ``view`` where the cloud does not
    show it: a launch that is not answered yet, or an instance that is gone.
    """

    region: str
    row: CloudInstance | None
    view: InstanceView | None

    @property
    def id(self) -> str:
        """The cloud's name for it, empty where that is not known yet."""
        if self.view is not None:
            return self.view.id
        return self.row.instance_id if self.row is not None else ""

    @property
    def state(self) -> str:
        """The cloud's word, else that of the books."""
        if self.view is not None:
            return self.view.state
        return f"{self.row.state} (not seen)" if self.row is not None else ""

    @property
    def instance_type(self) -> str:
        """Such as g4dn.xlarge."""
        if self.view is not None:
            return self.view.instance_type
        return self.row.instance_type if self.row is not None else ""

    @property
    def zone(self) -> str:
        """Where in the region."""
        if self.view is not None:
            return self.view.zone
        return self.row.zone if self.row is not None else ""

    @property
    def launched_at(self) -> datetime | None:
        """When the cloud began to count."""
        if self.view is not None:
            return self.view.launched_at
        return self.row.launched_at if self.row is not None else None

    @property
    def job_id(self) -> str:
        """The job that it was launched for, empty where nobody says."""
        if self.row is not None:
            return str(self.row.job_id)
        return self.view.tags.get(JOB_TAG, "") if self.view is not None else ""

    def age(self, now: datetime) -> timedelta | None:
        """Since the launch."""
        return None if self.launched_at is None else now - self.launched_at

    def cost_usd(self, now: datetime) -> Decimal | None:
        """What it has cost so far, ``None`` where its price is not known."""
        return None if self.row is None else budget.cost_until(self.row, now)

    def as_json(self, now: datetime) -> dict[str, Any]:
        """Numbers and ISO times; ``None`` where unknown."""
        age, cost_usd = self.age(now), self.cost_usd(now)
        return {
            "region": self.region,
            "zone": self.zone,
            "instance_id": self.id or None,
            "instance_type": self.instance_type,
            "state": self.state,
            "launched_at": None if self.launched_at is None else self.launched_at.isoformat(),
            "age_seconds": None if age is None else age.total_seconds(),
            "job": self.job_id or None,
            "usd_per_hour": None if self.row is None else float(self.row.usd_per_hour),
            "usd_so_far": None if cost_usd is None else float(cost_usd),
        }


@dataclass(slots=True)
class Inventory:
    """All live instances of this deployment in some regions; a line for each region unseen."""

    instances: list[LiveInstance] = field(default_factory=list)
    failed: dict[str, Ec2Error] = field(default_factory=dict)


def take_inventory(regions: Iterable[str], api_of: ApiOf = Ec2Api) -> Inventory:
    """Ask each region; one that fails does not hide the others."""
    inventory = Inventory()
    deployment = options.deployment_name()
    for region in regions:
        try:
            views = list(api_of(region).list_deployment(deployment))
        except Ec2Error as error:
            inventory.failed[region] = error
            continue
        inventory.instances += _compare(region, views)
    return inventory


def default_regions() -> list[str]:
    """Where instances of ours may be, else where machines of the catalogue are launched."""
    if regions := options.watched_regions():
        return regions
    machines = Machine.objects.filter(
        provider=options.PROVIDER, availability=Machine.Availability.CURRENT
    )
    found = machines.exclude(region="").order_by("region").values_list("region", flat=True)
    return list(found.distinct())


def _compare(region: str, views: list[InstanceView]) -> list[LiveInstance]:
    live_views = [view for view in views if not view.is_over]
    is_known = Q(state__in=CloudInstance.LIVE_STATES)
    is_known |= Q(client_token__in=[view.client_token for view in live_views])
    rows = CloudInstance.objects.filter(is_known, region=region).order_by("id")
    by_token = {row.client_token: row for row in rows}
    found = [
        LiveInstance(region, by_token.pop(view.client_token, None), view)
        for view in sorted(live_views, key=lambda view: view.launched_at)
    ]
    unseen = (row for row in by_token.values() if row.state in CloudInstance.LIVE_STATES)
    return [*found, *(LiveInstance(region, row, None) for row in unseen)]
