"""What a played EC2 keeps of each launch, read out of the request that was really sent."""

from __future__ import annotations

import base64
import email
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass
class Launch:
    """One instance that the played EC2 has made.

    ``parameters`` are those of the RunInstances request, by AWS's flat names such as
    ``TagSpecification.1.Tag.2.Key``.
    """

    instance_id: str
    region: str
    zone: str
    address: str
    parameters: Mapping[str, str]
    hidden_calls: int = 0
    boot_calls: int = 0
    shutdown_calls: int = 0
    reason: tuple[str, str] | None = field(default=None)
    """Code and message of why it ended, where nobody asked for that."""

    @property
    def client_token(self) -> str:
        return self.parameters.get("ClientToken", "")

    @property
    def instance_type(self) -> str:
        return self.parameters.get("InstanceType", "")

    @cached_property
    def user_data(self) -> bytes:
        """As the machine would read it."""
        return base64.b64decode(self.parameters.get("UserData", ""))

    @cached_property
    def tags(self) -> dict[str, str]:
        """The tags of the instance itself."""
        return self.tags_of("instance")

    def tags_of(self, kind: str) -> dict[str, str]:
        """The tags that the request asks for on resources of a kind, such as ``volume``."""
        specifications = _numbered(self.parameters, "TagSpecification")
        tags: dict[str, str] = {}
        for number in specifications:
            prefix = f"TagSpecification.{number}"
            if self.parameters[f"{prefix}.ResourceType"] != kind:
                continue
            for tag in _numbered(self.parameters, f"{prefix}.Tag"):
                key = self.parameters[f"{prefix}.Tag.{tag}.Key"]
                tags[key] = self.parameters[f"{prefix}.Tag.{tag}.Value"]
        return tags

    @property
    def job_id(self) -> str:
        """The job in its tags."""
        return self.tags.get("epochcast:job", "")

    # What a machine would do with its user data ------------------------------------------------

    @cached_property
    def parts(self) -> list[tuple[str, str]]:
        """Type and text of each part of the user data, in the order in which they stand."""
        message = email.message_from_bytes(self.user_data)
        return [
            (part.get_content_type(), str(part.get_payload()))
            for part in message.walk()
            if not part.is_multipart()
        ]

    @cached_property
    def cloud_config(self) -> dict[str, Any]:
        """What cloud-init would read as its configuration."""
        text = next(text for kind, text in self.parts if kind == "text/cloud-config")
        config: dict[str, Any] = json.loads(text.removeprefix("#cloud-config"))
        return config

    @property
    def host_private_key(self) -> str:
        return str(self.cloud_config["ssh_keys"]["ed25519_private"])

    @property
    def host_public_key(self) -> str:
        return str(self.cloud_config["ssh_keys"]["ed25519_public"])

    @property
    def authorized_key(self) -> str:
        (key,) = self.cloud_config["ssh_authorized_keys"]
        return str(key)

    @property
    def user(self) -> str:
        return str(self.cloud_config["user"]["name"])

    @property
    def shutdown_minutes(self) -> int:
        """After how long the machine switches itself off, by the first line that it runs."""
        kind, text = self.parts[0]
        assert kind == "text/cloud-boothook"
        first_line = next(line for line in text.splitlines() if not line.startswith("#"))
        match = re.search(r"shutdown -P \+(\d+)", first_line)
        assert match is not None, f"the first line arms no shutdown: {first_line}"
        return int(match.group(1))


def _numbered(parameters: Mapping[str, str], prefix: str) -> list[int]:
    """The numbers N for which there are parameters ``prefix.N...``."""
    pattern = re.compile(rf"{re.escape(prefix)}\.(\d+)\.")
    return sorted({int(m.group(1)) for name in parameters if (m := pattern.match(name))})
