"""EC2 in memory, for steps that die at any call; as idempotent as the real one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.utils import timezone

from benchmarking.hosts.ec2.api import InstanceView
from benchmarking.hosts.ec2.errors import Ec2Error
from benchmarking.hosts.ec2.request import Image, Place
from benchmarking.tests.jobs.fake_host import ProcessDeath

LOST_ANSWER = Ec2Error("RequestTimeout", "Read timeout", region="us-east-1", is_certain=False)


def refusal(code: str, *, region: str = "us-east-1", is_certain: bool = True) -> Ec2Error:
    return Ec2Error(code, "Played.", region=region, is_certain=is_certain, action="RunInstances")


@dataclass
class FakeEc2:
    """All regions of one account.

    ``die_at`` names a call, as ``"before run"`` or ``"after run"``, at which the worker dies once.
    ``errors`` are raised in turn by launches, ``None`` lets one through; ``lost_answers`` counts
    launches that are carried out without an answer.
    """

    zones: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        self.instances: dict[str, InstanceView] = {}
        self.requests: dict[str, tuple[dict[str, Any], bytes]] = {}
        self.errors: list[Ec2Error | None] = []
        self.find_errors: list[Ec2Error | None] = []
        self.lost_answers = 0
        self.die_at = ""
        self.calls: list[str] = []
        self.most_live = 0
        self.hidden: set[str] = set()
        self.ends_slowly = False

    def api_of(self, region: str) -> FakeApi:
        return FakeApi(self, region)

    @property
    def live(self) -> list[InstanceView]:
        return [view for view in self.instances.values() if not view.is_over]

    def change(self, instance_id: str, **values: Any) -> None:
        self.instances[instance_id] = replace(self.instances[instance_id], **values)

    def enter(self, name: str) -> None:
        self.calls.append(name)
        self.die(f"before {name}")

    def die(self, point: str) -> None:
        if self.die_at == point:
            self.die_at = ""
            raise ProcessDeath(point)


class FakeApi:
    """Follows ``Ec2Api``."""

    def __init__(self, cloud: FakeEc2, region: str) -> None:
        self.cloud = cloud
        self.region = region

    def run(self, request: Mapping[str, Any], user_data: bytes) -> InstanceView:
        self.cloud.enter("run")
        if self.cloud.errors and (error := self.cloud.errors.pop(0)) is not None:
            raise error
        token = request["ClientToken"]
        view = self._of_token(token)
        if view is not None:
            if self.cloud.requests[token] != (dict(request), user_data):
                raise refusal("IdempotentParameterMismatch", region=self.region)
            if view.is_over:
                raise refusal("IdempotentInstanceTerminated", region=self.region)
        else:
            view = self._make(request)
            self.cloud.requests[token] = (dict(request), user_data)
        self.cloud.die("after run")
        if self.cloud.lost_answers:
            self.cloud.lost_answers -= 1
            raise LOST_ANSWER
        return view

    def _make(self, request: Mapping[str, Any]) -> InstanceView:
        number = len(self.cloud.instances) + 1
        view = InstanceView(
            id=f"i-{number:017x}",
            state="pending",
            region=self.region,
            zone=request["SubnetId"].removeprefix("subnet-"),
            instance_type=request["InstanceType"],
            launched_at=timezone.now(),
            client_token=request["ClientToken"],
            address=f"127.0.0.{number + 1}",
            tags={tag["Key"]: tag["Value"] for tag in request["TagSpecifications"][0]["Tags"]},
            reason_code="",
            reason="",
        )
        self.cloud.instances[view.id] = view
        self.cloud.most_live = max(self.cloud.most_live, len(self.cloud.live))
        return view

    def find(self, instance_id: str) -> InstanceView | None:
        self.cloud.enter("find")
        if self.cloud.find_errors and (error := self.cloud.find_errors.pop(0)) is not None:
            raise error
        self.cloud.die("after find")
        if instance_id in self.cloud.hidden:
            return None
        return self.cloud.instances.get(instance_id)

    def find_by_token(self, token: str) -> InstanceView | None:
        self.cloud.enter("find_by_token")
        if self.cloud.find_errors and (error := self.cloud.find_errors.pop(0)) is not None:
            raise error
        view = self._of_token(token)
        return None if view is None or view.id in self.cloud.hidden else view

    def _of_token(self, token: str) -> InstanceView | None:
        views = self.cloud.instances.values()
        return next((view for view in views if view.client_token == token), None)

    def list_deployment(self, deployment: str) -> Iterator[InstanceView]:
        self.cloud.enter("list_deployment")
        for view in list(self.cloud.instances.values()):
            is_ours = view.tags.get("epochcast:deployment") == deployment
            if view.region == self.region and is_ours and view.id not in self.cloud.hidden:
                yield view

    def terminate(self, instance_id: str) -> None:
        self.cloud.enter("terminate")
        view = self.cloud.instances.get(instance_id)
        if view is not None and not view.is_over:
            state = "shutting-down" if self.cloud.ends_slowly else "terminated"
            self.cloud.change(
                instance_id, state=state, reason="Client.UserInitiatedShutdown: by request"
            )
        self.cloud.die("after terminate")

    def find_image(self, image_id: str, parameter: str) -> Image:
        return Image(image_id or "ami-00000001", ("/dev/sda1",))

    def list_places(self, instance_type: str, subnet_ids: tuple[str, ...]) -> list[Place]:
        return [
            Place(self.region, zone, f"subnet-{zone}", "vpc-1")
            for zone in self.cloud.zones.get(self.region, ())
        ]

    def ensure_security_group(
        self, *, vpc_id: str, deployment: str, worker_cidr: str, port: int
    ) -> str:
        return "sg-1"
