"""Settings of the EC2 host: what is read of them, and the one line that refuses a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from predictor_site import cloud_environment as cloud
from predictor_site.environment import Environment

Reader = Callable[[Environment, str], Any]

parameter_path: Reader = partial(cloud.parameter_path, default="/aws/service/image")
program_path: Reader = partial(cloud.program_path, default="/opt/pytorch/bin/python")
user_name: Reader = partial(cloud.user_name, default="ubuntu")


def read(reader: Reader, text: str) -> Any:
    return reader(Environment({"NAME": text}), "NAME")


@pytest.mark.parametrize(
    ("reader", "text", "value"),
    [
        (cloud.regions, "", []),
        (cloud.regions, "us-east-1, us-gov-west-1", ["us-east-1", "us-gov-west-1"]),
        (cloud.regions, "eusc-de-east-1,cn-north-1", ["eusc-de-east-1", "cn-north-1"]),
        (cloud.image_ids, "", {}),
        (cloud.image_ids, "ami-0123abcd", {"": "ami-0123abcd"}),
        (
            cloud.image_ids,
            "us-east-1=ami-0123abcd, eu-west-1=ami-0123456789abcdef0,ami-00000001",
            {
                "us-east-1": "ami-0123abcd",
                "eu-west-1": "ami-0123456789abcdef0",
                "": "ami-00000001",
            },
        ),
        (
            cloud.subnet_ids,
            "us-east-1=subnet-0000000a,us-east-1=subnet-0000000b",
            {"us-east-1": ["subnet-0000000a", "subnet-0000000b"]},
        ),
        (cloud.worker_network, "", ""),
        (cloud.worker_network, "203.0.113.7", "203.0.113.7/32"),
        (cloud.worker_network, "10.1.0.0/16", "10.1.0.0/16"),
        (cloud.worker_network, "2001:db8::7", "2001:db8::7/128"),
        (cloud.endpoint, "", ""),
        (cloud.endpoint, "http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        (parameter_path, "", "/aws/service/image"),
        (program_path, "", "/opt/pytorch/bin/python"),
        (program_path, "python3.11", "python3.11"),
        (user_name, "", "ubuntu"),
        (user_name, "ec2-user", "ec2-user"),
        (cloud.deployment_name, "", ""),
        (cloud.deployment_name, "lab.north-1", "lab.north-1"),
    ],
)
def test_values_are_read(reader: Reader, text: str, value: Any) -> None:
    assert read(reader, text) == value


@pytest.mark.parametrize(
    ("reader", "text", "sentence"),
    [
        (cloud.regions, "us-east-1,virginia", "AWS regions such as us-east-1,eu-west-1"),
        (cloud.image_ids, "ami-xyz", "us-east-1=ami-0123456789abcdef0 or ami-0123456789abcdef0"),
        (
            cloud.regions,
            "us-east-9",
            "must be AWS regions such as us-east-1,eu-west-1; 'us-east-9' is none (did you mean "
            "us-east-",
        ),
        (cloud.image_ids, "virginia=ami-0123abcd", "'virginia' is no AWS region"),
        (cloud.image_ids, "us-east-9=ami-0123abcd", "'us-east-9' is no AWS region (did you mean"),
        (cloud.image_ids, "=ami-0123abcd", "'' is no AWS region"),
        (cloud.subnet_ids, "eu-west-9=subnet-0000000a", "'eu-west-9' is no AWS region"),
        (cloud.image_ids, "ami-0123abcd,ami-0123abce", "names two images for all regions"),
        (cloud.subnet_ids, "subnet-0000000a", "must look like us-east-1=subnet-"),
        (cloud.worker_network, "0.0.0.0/0", "would let strangers reach the machines"),
        (cloud.worker_network, "::/0", "would let strangers reach the machines"),
        (cloud.worker_network, "10.0.0.0/8", "at most /16 is allowed"),
        (cloud.worker_network, "203.0.113.7/24", "such as 203.0.113.7/32"),
        (cloud.worker_network, "my laptop", "such as 203.0.113.7/32"),
        (cloud.endpoint, "127.0.0.1:5000", "must look like http://127.0.0.1:5000"),
        (cloud.endpoint, "file:///etc/passwd", "must look like http://127.0.0.1:5000"),
        (cloud.endpoint, "http://127.0.0.1:99999", "must look like http://127.0.0.1:5000"),
        (program_path, "python; rm -rf /", "must be a program such as /opt/pytorch/bin/python"),
        (program_path, "/opt/pytorch/bin/", "without arguments"),
        (parameter_path, "image", "the path of an SSM parameter"),
        (user_name, "root; rm -rf /", "must be a user such as ubuntu"),
        (user_name, "Ubuntu", "must be a user such as ubuntu"),
        (cloud.deployment_name, "with space", "at most 63 letters"),
        (cloud.deployment_name, "x" * 64, "at most 63 letters"),
    ],
)
def test_wrong_value_is_refused_in_one_line(reader: Reader, text: str, sentence: str) -> None:
    with pytest.raises(ImproperlyConfigured) as caught:
        read(reader, text)
    message = str(caught.value)
    assert message.startswith("NAME ")
    assert sentence in message
    assert "\n" not in message
