"""Reading AWS: answers in the shape of recorded ones, and moto where it knows the call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError
from botocore.stub import Stubber
from moto import mock_aws

from benchmarking.models import Price
from benchmarking.prices.aws import AwsPriceSource
from benchmarking.prices.source import MissingCredentialsError, Offer, PriceSourceError

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def product(
    instance_type: str,
    *usd: str,
    unit: str = "Hrs",
    currency: str = "USD",
    published: str = "2026-11-27T18:04:31Z",
) -> str:
    """One line of the price list, with the parts of the real one that are read or could mislead."""
    sku = f"SKU{instance_type}"
    dimensions = {
        f"{sku}.JRTCKXETXF.{number}": {
            "unit": unit,
            "endRange": "Inf",
            "description": f"${rate} per On Demand Linux {instance_type} Instance Hour",
            "pricePerUnit": {currency: rate},
        }
        for number, rate in enumerate(usd)
    }
    return json.dumps(
        {
            "product": {
                "productFamily": "Compute Instance",
                "attributes": {
                    "instanceType": instance_type,
                    "vcpu": "4",
                    "operation": "RunInstances",
                },
                "sku": sku,
            },
            "serviceCode": "AmazonEC2",
            "terms": {
                "OnDemand": {
                    f"{sku}.JRTCKXETXF": {
                        "priceDimensions": dimensions,
                        "effectiveDate": "2026-11-01T00:00:00Z",
                    }
                },
                "Reserved": {"other": {"priceDimensions": {"x": {"unit": "Quantity"}}}},
            },
            "version": "20261127180431",
            "publicationDate": published,
        }
    )


def spot(instance_type: str, zone: str, price: str, hour: int = 10) -> dict[str, Any]:
    return {
        "AvailabilityZone": zone,
        "InstanceType": instance_type,
        "ProductDescription": "Linux/UNIX",
        "SpotPrice": price,
        "Timestamp": datetime(2026, 11, 29, hour, 5, tzinfo=UTC),
    }


class StubbedAws:
    """Clients that answer from a script and remember which ones were asked for."""

    def __init__(self) -> None:
        self.pricing = boto3.client("pricing", "us-east-1", **_KEYS)
        self.ec2 = boto3.client("ec2", "us-east-2", **_KEYS)
        self.pricing_stub = Stubber(self.pricing)
        self.ec2_stub = Stubber(self.ec2)
        self.created: list[tuple[str, str]] = []
        self.source = AwsPriceSource(self.create_client, now=lambda: NOW)

    def create_client(self, service: str, *, region_name: str, config: Any) -> Any:
        self.created.append((service, region_name))
        return {"pricing": self.pricing, "ec2": self.ec2}[service]

    def on_demand(self, *instance_types: str, region: str = "us-east-2") -> list[Offer]:
        return self.source.list_offers(
            region=region, kind=Price.Kind.ON_DEMAND, instance_types=instance_types
        )

    def spot(self, *instance_types: str) -> list[Offer]:
        return self.source.list_offers(
            region="us-east-2", kind=Price.Kind.SPOT, instance_types=instance_types
        )


_KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}


@pytest.fixture
def aws() -> Iterator[StubbedAws]:
    stubbed = StubbedAws()
    with stubbed.pricing_stub, stubbed.ec2_stub:
        yield stubbed


def test_the_price_list_is_read_page_by_page(aws: StubbedAws) -> None:
    asked = {
        "ServiceCode": "AmazonEC2",
        "FormatVersion": "aws_v1",
        "Filters": [
            {"Type": "TERM_MATCH", "Field": field, "Value": value}
            for field, value in (
                ("regionCode", "us-east-2"),
                ("operatingSystem", "Linux"),
                ("tenancy", "Shared"),
                ("preInstalledSw", "NA"),
                ("capacitystatus", "Used"),
                ("marketoption", "OnDemand"),
            )
        ],
    }
    aws.pricing_stub.add_response(
        "get_products",
        {
            "FormatVersion": "aws_v1",
            "PriceList": [product("g4dn.xlarge", "0.5260000000"), product("m5.large", "0.096")],
            "NextToken": "page2",
        },
        asked,
    )
    aws.pricing_stub.add_response(
        "get_products",
        {"FormatVersion": "aws_v1", "PriceList": [product("p5.48xlarge", "55.0400000000")]},
        asked | {"NextToken": "page2"},
    )
    offers = aws.on_demand("g4dn.xlarge", "p5.48xlarge", "p2.xlarge")
    source = "AWS price list API, published 2026-11-27"
    assert offers == [
        Offer("g4dn.xlarge", "us-east-2", Price.Kind.ON_DEMAND, Decimal("0.526"), source),
        Offer("p5.48xlarge", "us-east-2", Price.Kind.ON_DEMAND, Decimal("55.04"), source),
    ]
    assert aws.created == [("pricing", "us-east-1")]
    aws.pricing_stub.assert_no_pending_responses()


def answer(aws: StubbedAws, *lines: str) -> None:
    aws.pricing_stub.add_response(
        "get_products", {"FormatVersion": "aws_v1", "PriceList": list(lines)}
    )


def test_lines_that_bill_nothing_by_the_hour_are_left_out(aws: StubbedAws) -> None:
    answer(
        aws,
        product("g5.xlarge", "0.0000000000"),
        product("g6.xlarge", "0.8048", unit="Quantity"),
        product("g6.2xlarge", "0.9776", currency="CNY"),
        product("g4dn.xlarge", "0", "0.526"),
    )
    offers = aws.on_demand("g5.xlarge", "g6.xlarge", "g6.2xlarge", "g4dn.xlarge")
    assert [(offer.instance_type, offer.usd_per_hour) for offer in offers] == [
        ("g4dn.xlarge", Decimal("0.526"))
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [product("g5.xlarge", "1.006"), product("g5.xlarge", "1.106")],
            "two prices for g5.xlarge: 1.006 and 1.106 USD/h",
        ),
        ([product("g5.xlarge", "1.006", "1.106")], "several rates for one g5.xlarge"),
        ([product("g5.xlarge", "free")], "the price of g5.xlarge is 'free'"),
        ([product("g5.xlarge", "-1")], "the price of g5.xlarge is '-1'"),
        ([product("g5.xlarge", "NaN")], "the price of g5.xlarge is 'NaN'"),
        (["{"], "a line of another shape"),
        (['{"product": {}}'], "a line of another shape: KeyError"),
    ],
)
def test_an_answer_that_cannot_be_trusted_is_refused(
    aws: StubbedAws, lines: list[str], message: str
) -> None:
    answer(aws, *lines)
    with pytest.raises(PriceSourceError, match=message):
        aws.on_demand("g5.xlarge")


def test_the_newest_price_of_the_cheapest_zone_is_the_spot_price(aws: StubbedAws) -> None:
    asked = {
        "InstanceTypes": ["g4dn.xlarge", "g5.xlarge"],
        "ProductDescriptions": ["Linux/UNIX"],
        "StartTime": NOW,
    }
    aws.ec2_stub.add_response(
        "describe_spot_price_history",
        {
            "SpotPriceHistory": [
                spot("g4dn.xlarge", "us-east-2a", "0.210000", hour=11),
                spot("g4dn.xlarge", "us-east-2a", "0.100000", hour=9),
                spot("g4dn.xlarge", "us-east-2b", "0.190000"),
            ],
            "NextToken": "more",
        },
        asked,
    )
    aws.ec2_stub.add_response(
        "describe_spot_price_history",
        {
            "SpotPriceHistory": [spot("g5.xlarge", "us-east-2c", "0.402500", hour=7)],
            "NextToken": "",
        },
        asked | {"NextToken": "more"},
    )
    assert aws.spot("g5.xlarge", "g4dn.xlarge") == [
        Offer(
            "g4dn.xlarge",
            "us-east-2",
            Price.Kind.SPOT,
            Decimal("0.19"),
            "EC2 spot price history, us-east-2b, set 2026-11-29 10:05 UTC",
        ),
        Offer(
            "g5.xlarge",
            "us-east-2",
            Price.Kind.SPOT,
            Decimal("0.4025"),
            "EC2 spot price history, us-east-2c, set 2026-11-29 07:05 UTC",
        ),
    ]
    assert aws.created == [("ec2", "us-east-2")]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("UnrecognizedClientException", MissingCredentialsError),
        ("ExpiredTokenException", MissingCredentialsError),
        ("AccessDeniedException", PriceSourceError),
        ("ThrottlingException", PriceSourceError),
    ],
)
def test_refused_credentials_are_told_from_other_errors(
    aws: StubbedAws, code: str, expected: type[PriceSourceError]
) -> None:
    aws.pricing_stub.add_client_error("get_products", code, "User: x is\nnot authorized")
    with pytest.raises(PriceSourceError) as caught:
        aws.on_demand("g5.xlarge")
    assert type(caught.value) is expected
    assert code in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (NoCredentialsError(), MissingCredentialsError, "set AWS_ACCESS_KEY_ID and"),
        (EndpointConnectionError(endpoint_url="https://x"), PriceSourceError, "Could not connect"),
    ],
)
def test_a_client_that_cannot_ask_says_why(
    error: Exception, expected: type[PriceSourceError], message: str
) -> None:
    def create_client(*args: Any, **kwargs: Any) -> Any:
        raise error

    source = AwsPriceSource(create_client)
    with pytest.raises(PriceSourceError, match=message) as caught:
        source.list_offers(region="us-east-1", kind=Price.Kind.SPOT, instance_types=["g4dn.xlarge"])
    assert type(caught.value) is expected


def test_no_types_are_asked_for_no_spot_prices(aws: StubbedAws) -> None:
    assert aws.spot() == []
    assert aws.created == []


@pytest.fixture
def fake_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")


def test_a_simulated_ec2_answers_for_the_types_asked(fake_keys: None) -> None:
    with mock_aws():
        offers = AwsPriceSource().list_offers(
            region="us-east-1",
            kind=Price.Kind.SPOT,
            instance_types=["g4dn.xlarge", "p5.48xlarge", "not.atype"],
        )
    assert {offer.instance_type for offer in offers} == {"g4dn.xlarge", "p5.48xlarge"}
    assert {offer.usd_per_hour for offer in offers} == {Decimal("0.00001")}
    assert all(offer.region == "us-east-1" for offer in offers)
    assert all("EC2 spot price history, us-east-1" in offer.source for offer in offers)


def test_the_regions_are_known_without_asking() -> None:
    regions = AwsPriceSource(_refuse).regions
    assert {"us-east-1", "eu-central-1", "ap-northeast-1"} <= set(regions)
    assert "eastus" not in regions


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("nobody may be asked")
