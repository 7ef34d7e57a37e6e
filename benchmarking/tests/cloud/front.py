"""EC2 on this machine: moto's server behind a front that plays what moto leaves out.

The front makes RunInstances idempotent by its client token, as AWS does; answers with planned
errors; loses answers after the deed is done; hides new instances for some calls; lets them boot,
be interrupted and die; and gives them addresses in 127.0.0.0/8, for moto invents real-looking
ones. It listens on 127.0.0.1 only. Run by hand, it prints its address and serves until Ctrl-C::

    python -m benchmarking.tests.cloud.front --port 5000
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import re
import socket
import threading
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from moto.ec2.models.instances import InstanceState, StateReason
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.test import run_wsgi_app

from benchmarking.tests.cloud.answers import (
    error_answer,
    instance_ids,
    parse_answer,
    regions_answer,
    scope_of,
    without_instances,
)
from benchmarking.tests.cloud.faults import FaultPlan
from benchmarking.tests.cloud.launches import Launch

IMAGE_ID = "ami-dca37ea5"
"""A Linux image that moto knows in every region; the deep-learning SSM parameters name it."""

REGIONS = ("eu-west-1", "sa-east-1", "us-east-1", "us-west-2")

_PENDING = ("pending", 0)
_RUNNING = ("running", 16)
_SHUTTING_DOWN = ("shutting-down", 32)
_TERMINATED = ("terminated", 48)
_DEEP_LEARNING = "/aws/service/deeplearning/"
_SPOT = ("Server.SpotInstanceTermination", "Server.SpotInstanceTermination: Spot interruption")
_DIED = ("Client.InstanceInitiatedShutdown", "Client.InstanceInitiatedShutdown: Instance shutdown")

Hook = Callable[[Launch], None]
StartResponse = Callable[..., Any]


@dataclass(frozen=True)
class Call:
    """One request that came in."""

    action: str
    region: str
    parameters: Mapping[str, str]


class CloudFront(FaultPlan):
    """A played EC2; a context manager that serves in a thread.

    Attributes
    ----------
    url
        For ``EC2_ENDPOINT_URL``.
    calls
        Every request so far.
    launches
        Every instance that was ever made, by id.
    on_launch, on_end
        Called with the ``Launch`` before its answer is sent, and once it has ended in any way.
    regions
        Those that the account may use.
    page_size
        Instances per page of a description.
    new_hidden_calls, new_boot_calls, new_shutdown_calls
        For how many descriptions of it a new instance is not there, is ``pending``, and an ended
        one is ``shutting-down``.
    most_live_of_a_job
        The largest number of live instances that a job had at any moment.
    """

    def __init__(self, port: int = 0, on_launch: Hook | None = None, on_end: Hook | None = None):
        super().__init__()
        self.on_launch = on_launch
        self.on_end = on_end
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.RLock()
        self._server = make_server(
            "127.0.0.1", port, self._answer, threaded=True, request_handler=_QuietHandler
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._forget()

    def __enter__(self) -> CloudFront:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop serving; the instances are forgotten."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.reset()

    def reset(self) -> None:
        """Forget every instance, group, plan and call, and end what still lives."""
        with self._lock:
            for launch in self.live():
                self._ended(launch)
            for region in self._regions:
                ec2_backends[DEFAULT_ACCOUNT_ID][region].reset()
            self._forget()

    def _forget(self) -> None:
        self.calls: list[Call] = []
        self.launches: dict[str, Launch] = {}
        self.most_live_of_a_job = 0
        self.regions = REGIONS
        self.page_size: int | None = None
        self.new_hidden_calls = 0
        self.new_boot_calls = 0
        self.new_shutdown_calls = 0
        self.clear_faults()
        self._by_token: dict[tuple[str, str], tuple[dict[str, str], str]] = {}
        self._over: set[str] = set()
        self._regions: set[str] = set()

    # Events ----------------------------------------------------------------------------------

    def interrupt(self, instance_id: str) -> None:
        """Take a spot instance back, as AWS does two minutes after its notice."""
        self._end(self.launches[instance_id], _SPOT)

    def die(self, instance_id: str) -> None:
        """Let an instance switch itself off."""
        self._end(self.launches[instance_id], _DIED)

    def forget(self, instance_id: str) -> None:
        """Let EC2 know an ended instance no more, as about an hour after its end."""
        launch = self.launches[instance_id]
        with self._lock:
            if instance_id not in self._over:
                self._end(launch, _DIED)
            launch.hidden_calls = 2**31

    def launch_by_hand(self, *, region: str = "us-east-1", tags: Mapping[str, str]) -> Launch:
        """An instance that no request of ours has made."""
        parameters = {"ImageId": IMAGE_ID, "InstanceType": "g4dn.xlarge", "MinCount": "1"}
        parameters |= {"MaxCount": "1", "TagSpecification.1.ResourceType": "instance"}
        for number, (key, value) in enumerate(tags.items(), start=1):
            parameters[f"TagSpecification.1.Tag.{number}.Key"] = key
            parameters[f"TagSpecification.1.Tag.{number}.Value"] = value
        with self._lock:
            backend = self._backend(region)
            reservation = backend.run_instances(
                IMAGE_ID,
                1,
                None,
                [],
                instance_type="g4dn.xlarge",
                is_instance_type_default=False,
                region_name=region,
                placement=f"{region}a",
                tags={"instance": dict(tags)},
            )
            return self._made(reservation.instances[0], region, parameters)

    # What is there ---------------------------------------------------------------------------

    def live(self, job_id: object = None) -> list[Launch]:
        """Instances that cost money now, of one job or of all."""
        with self._lock:
            return [
                launch
                for launch in self.launches.values()
                if launch.instance_id not in self._over
                and (job_id is None or launch.job_id == str(job_id))
            ]

    def calls_of(self, action: str) -> list[Call]:
        """The requests of one action, in the order in which they came."""
        return [call for call in self.calls if call.action == action]

    # Answering -------------------------------------------------------------------------------

    def _answer(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        region, service = scope_of(environ)
        if service == "ssm":
            return self._answer_parameter(environ, body, start_response)
        parameters = dict(parse_qsl(body.decode(), keep_blank_values=True))
        action = parameters.get("Action", "")
        with self._lock:
            self.calls.append(Call(action, region, parameters))
            self._regions.add(region)
            zone = self._zone_of(parameters, region)
            faults = [
                fault
                for kind in ("delay", "error", "drop", "truncate")
                if (fault := self._take_fault(kind, action, zone, region)) is not None
            ]
        by_kind = {fault.kind: fault for fault in faults}
        if "delay" in by_kind:
            time.sleep(by_kind["delay"].seconds)
        if "error" in by_kind:
            fault = by_kind["error"]
            status, answer = fault.status, error_answer(fault.code, fault.message)
        else:
            with self._lock:
                status, answer = self._act(action, region, parameters, environ)
        if "drop" in by_kind:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        if "truncate" in by_kind:
            answer = answer[: len(answer) // 2]
        start_response(
            f"{status} played", [("Content-Type", "text/xml"), ("Content-Length", str(len(answer)))]
        )
        return [answer]

    def _act(
        self, action: str, region: str, parameters: dict[str, str], environ: dict[str, Any]
    ) -> tuple[int, bytes]:
        if action == "RunInstances":
            return self._run_instances(region, parameters, environ)
        if action == "DescribeInstances":
            return self._describe_instances(region, parameters, environ)
        if action == "DescribeRegions":
            return 200, regions_answer(self.regions)
        status, answer = self._ask_moto(environ, parameters)
        if action == "TerminateInstances" and status == 200:
            for name, instance_id in parameters.items():
                if name.startswith("InstanceId.") and instance_id in self.launches:
                    self._ended(self.launches[instance_id])
        return status, answer

    def _run_instances(
        self, region: str, parameters: dict[str, str], environ: dict[str, Any]
    ) -> tuple[int, bytes]:
        token = parameters.get("ClientToken", "")
        asked = {name: value for name, value in parameters.items() if name != "ClientToken"}
        known = self._by_token.get((region, token))
        if known is not None:
            parameters_before, instance_id = known
            if parameters_before != asked:
                return 400, error_answer(
                    "IdempotentParameterMismatch",
                    "Arguments on this idempotent request are inconsistent with arguments used in "
                    "previous request(s).",
                )
            if instance_id in self._over:
                return 400, error_answer(
                    "IdempotentInstanceTerminated", f"The instance {instance_id} is terminated."
                )
            return 200, self._describe_new(region, instance_id, environ)
        for_moto = dict(parameters)
        for name in parameters:
            # moto wants a size where AWS takes that of the image.
            if match := re.match(r"(BlockDeviceMapping\.\d+\.Ebs)\.DeleteOnTermination", name):
                for_moto[f"{match.group(1)}.VolumeSize"] = "15"
        status, answer = self._ask_moto(environ, for_moto)
        if status != 200:
            return status, answer
        instance_id = (
            re.search(rb"<instanceId>(i-[0-9a-f]+)</instanceId>", answer).group(1).decode()
        )
        instance = self._backend(region).get_instance(instance_id)
        self._by_token[region, token] = (asked, instance_id)
        launch = self._made(instance, region, parameters)
        launch.boot_calls += 1
        return 200, self._describe_new(region, instance_id, environ)

    def _made(self, instance: Any, region: str, parameters: Mapping[str, str]) -> Launch:
        number = len(self.launches) + 2
        address = f"127.0.{number // 250}.{number % 250}"
        nic = instance.nics[0]
        nic.public_ip = address
        nic.private_ip_address = address
        launch = Launch(
            instance_id=instance.id,
            region=region,
            zone=instance.placement.zone,
            address=address,
            parameters=dict(parameters),
            hidden_calls=self.new_hidden_calls,
            boot_calls=self.new_boot_calls,
            shutdown_calls=self.new_shutdown_calls,
        )
        self.launches[instance.id] = launch
        if launch.job_id:
            live = Counter(other.job_id for other in self.live())
            self.most_live_of_a_job = max(self.most_live_of_a_job, live[launch.job_id])
        if self.on_launch is not None:
            self.on_launch(launch)
        return launch

    def _end(self, launch: Launch, reason: tuple[str, str]) -> None:
        with self._lock:
            self._backend(launch.region).terminate_instances([launch.instance_id])
            launch.reason = reason
            self._ended(launch)

    def _ended(self, launch: Launch) -> None:
        if launch.instance_id in self._over:
            return
        self._over.add(launch.instance_id)
        if self.on_end is not None:
            self.on_end(launch)

    def _describe_new(self, region: str, instance_id: str, environ: dict[str, Any]) -> bytes:
        """RunInstances' answer: the inside of the one reservation."""
        _, answer = self._describe(region, {"InstanceId.1": instance_id}, environ)
        root, namespace = parse_answer(answer)
        reservation = root.find(f"{namespace}reservationSet/{namespace}item")
        assert reservation is not None
        new_root = ET.Element(f"{namespace}RunInstancesResponse")
        new_root.extend(list(reservation))
        return ET.tostring(new_root)

    def _describe_instances(
        self, region: str, parameters: dict[str, str], environ: dict[str, Any]
    ) -> tuple[int, bytes]:
        status, answer = self._describe(region, parameters, environ)
        by_id = instance_ids(parameters)
        hidden = {
            launch.instance_id
            for launch in self.launches.values()
            if launch.hidden_calls > 0 and (not by_id or launch.instance_id in by_id)
        }
        for instance_id in hidden:
            self.launches[instance_id].hidden_calls -= 1
        if missing := hidden.intersection(by_id):
            message = f"The instance ID '{min(missing)}' does not exist"
            return 400, error_answer("InvalidInstanceID.NotFound", message)
        return status, without_instances(answer, hidden) if hidden and status == 200 else answer

    def _describe(
        self, region: str, parameters: Mapping[str, str], environ: dict[str, Any]
    ) -> tuple[int, bytes]:
        asked = {"Version": "2016-11-15", **parameters, "Action": "DescribeInstances"}
        by_id = instance_ids(asked)
        self._replace_token_filter(region, asked)
        if self.page_size is not None and not by_id:
            asked["MaxResults"] = str(self.page_size)
        for launch in self.launches.values():
            if launch.region == region:
                self._set_state(launch, by_id)
        return self._ask_moto(environ, asked)

    def _set_state(self, launch: Launch, by_id: list[str]) -> None:
        """The state that this description shows."""
        instance = self._backend(launch.region).get_instance(launch.instance_id)
        counts = not by_id or launch.instance_id in by_id
        if launch.instance_id in self._over:
            state = _SHUTTING_DOWN if launch.shutdown_calls > 0 else _TERMINATED
            launch.shutdown_calls -= counts
            if launch.reason is not None:
                code, message = launch.reason
                instance.state_reason = StateReason(message, code)
        else:
            state = _PENDING if launch.boot_calls > 0 else _RUNNING
            launch.boot_calls -= counts
        instance._state = InstanceState(*state)

    def _replace_token_filter(self, region: str, parameters: dict[str, str]) -> None:
        """moto cannot look for a client token; an instance id of no instance finds none."""
        for name, value in list(parameters.items()):
            if re.fullmatch(r"Filter\.\d+\.Name", name) and value == "client-token":
                prefix = name.removesuffix(".Name")
                token = parameters[f"{prefix}.Value.1"]
                _, instance_id = self._by_token.get((region, token), ({}, "i-0"))
                parameters[name] = "instance-id"
                parameters[f"{prefix}.Value.1"] = instance_id

    def _backend(self, region: str) -> Any:
        self._regions.add(region)
        return ec2_backends[DEFAULT_ACCOUNT_ID][region]

    def _zone_of(self, parameters: Mapping[str, str], region: str) -> str | None:
        subnet_id = parameters.get("SubnetId")
        if not subnet_id:
            return parameters.get("Placement.AvailabilityZone")
        with contextlib.suppress(Exception):
            subnet = self._backend(region).get_subnet(subnet_id)
            return str(subnet.availability_zone)
        return None

    def _answer_parameter(
        self, environ: dict[str, Any], body: bytes, start_response: StartResponse
    ) -> Iterable[bytes]:
        name = json.loads(body or b"{}").get("Name", "")
        if name.startswith(_DEEP_LEARNING):
            answer = json.dumps(
                {"Parameter": {"Name": name, "Type": "String", "Value": IMAGE_ID, "Version": 1}}
            ).encode()
            start_response("200 OK", [("Content-Type", "application/x-amz-json-1.1")])
            return [answer]
        environ["wsgi.input"] = io.BytesIO(body)
        with self._lock:
            return self._moto(environ, start_response)

    def _ask_moto(
        self, environ: dict[str, Any], parameters: Mapping[str, str]
    ) -> tuple[int, bytes]:
        body = urlencode(parameters).encode()
        inner = dict(environ)
        inner["wsgi.input"] = io.BytesIO(body)
        inner["CONTENT_LENGTH"] = str(len(body))
        pieces, status, _ = run_wsgi_app(self._moto, inner, buffered=True)
        return int(status.split()[0]), b"".join(pieces)


class _QuietHandler(WSGIRequestHandler):
    """Leaves no line for each request."""

    def log(self, type: str, message: str, *args: Any) -> None:
        logging.getLogger(__name__).debug(message, *args)


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description="EC2 played on 127.0.0.1")
    parser.add_argument("--port", type=int, default=5000)
    with CloudFront(parser.parse_args().port) as front:
        print(front.url, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
