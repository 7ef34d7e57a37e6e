"""The catalogue of regions: read from boto3's data, without boto3."""

from __future__ import annotations

import boto3

from benchmarking.hosts.ec2.regions import known_regions


def test_regions_are_those_that_boto3_knows_in_every_partition() -> None:
    session = boto3.session.Session()
    expected = {
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("ec2", partition)
    }

    assert set(known_regions()) == expected
    assert {"us-east-1", "us-gov-west-1", "cn-north-1"} < expected
    assert list(known_regions()) == sorted(expected)
