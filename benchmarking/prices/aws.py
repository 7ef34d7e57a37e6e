"""AWS: the price list of EC2 on demand, and the spot price history.

Needs the permissions ``pricing:GetProducts`` and ``ec2:DescribeSpotPriceHistory``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
)

from benchmarking.models import Price
from benchmarking.prices.source import MissingCredentialsError, Offer, PriceSourceError

# The price list is served from few regions, for all regions.
_PRICE_LIST_REGION = "us-east-1"
_PRICE_LIST_FILTERS = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
_SPOT_PRODUCT = "Linux/UNIX"
_NO_CREDENTIALS = (
    "AWS prices need credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
)
_REFUSED_CREDENTIALS = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_CONFIG = Config(
    connect_timeout=5, read_timeout=30, retries={"mode": "standard", "max_attempts": 4}
)


class AwsPriceSource:
    """Prices of EC2 instances with Linux and shared tenancy.

    Parameters
    ----------
    create_client
        ``boto3.client``, or what stands in for it.
    now
        The current time, with its zone.
    """

    provider = "aws"

    def __init__(
        self,
        create_client: Callable[..., Any] = boto3.client,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._create_client = create_client
        self._now = now

    @cached_property
    def regions(self) -> tuple[str, ...]:
        """All regions of EC2 that boto3 knows; it asks nobody for them."""
        return tuple(sorted(boto3.session.Session().get_available_regions("ec2")))

    def list_offers(
        self, *, region: str, kind: Price.Kind, instance_types: Collection[str]
    ) -> list[Offer]:
        """See ``PriceSource``. On demand, the whole list of the region is read; for spot, the
        cheapest zone counts, because that is where one would launch."""
        try:
            if kind == Price.Kind.ON_DEMAND:
                return self._list_on_demand(region, frozenset(instance_types))
            return self._list_spot(region, sorted(instance_types))
        except (NoCredentialsError, PartialCredentialsError, ProfileNotFound) as error:
            raise MissingCredentialsError(_NO_CREDENTIALS) from error
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in _REFUSED_CREDENTIALS:
                raise MissingCredentialsError(f"AWS refuses the credentials: {code}.") from error
            raise PriceSourceError(_one_line(error)) from error
        except BotoCoreError as error:
            raise PriceSourceError(_one_line(error)) from error

    def _list_on_demand(self, region: str, instance_types: frozenset[str]) -> list[Offer]:
        filters = {"regionCode": region, **_PRICE_LIST_FILTERS}
        pages = self._client("pricing", _PRICE_LIST_REGION).get_paginator("get_products")
        offers: dict[str, Offer] = {}
        for page in pages.paginate(
            ServiceCode="AmazonEC2",
            FormatVersion="aws_v1",
            Filters=[
                {"Type": "TERM_MATCH", "Field": field, "Value": value}
                for field, value in filters.items()
            ],
        ):
            for text in page["PriceList"]:
                offer = _parse_product(text, region)
                if offer is None or offer.instance_type not in instance_types:
                    continue
                known = offers.setdefault(offer.instance_type, offer)
                if known.usd_per_hour != offer.usd_per_hour:
                    raise PriceSourceError(
                        f"the price list has two prices for {offer.instance_type}: "
                        f"{known.usd_per_hour} and {offer.usd_per_hour} USD/h"
                    )
        return list(offers.values())

    def _list_spot(self, region: str, instance_types: list[str]) -> list[Offer]:
        if not instance_types:
            return []
        pages = self._client("ec2", region).get_paginator("describe_spot_price_history")
        newest: dict[tuple[str, str], dict[str, Any]] = {}
        for page in pages.paginate(
            InstanceTypes=instance_types,
            ProductDescriptions=[_SPOT_PRODUCT],
            StartTime=self._now(),
        ):
            for row in page["SpotPriceHistory"]:
                key = (row["InstanceType"], row["AvailabilityZone"])
                if key not in newest or row["Timestamp"] > newest[key]["Timestamp"]:
                    newest[key] = row
        cheapest: dict[str, Offer] = {}
        for (instance_type, zone), row in sorted(newest.items()):
            offer = Offer(
                instance_type=instance_type,
                region=region,
                kind=Price.Kind.SPOT,
                usd_per_hour=_decimal(row["SpotPrice"], instance_type),
                source=f"EC2 spot price history, {zone}, set {row['Timestamp']:%Y-%m-%d %H:%M} UTC",
            )
            known = cheapest.setdefault(instance_type, offer)
            if 0 < offer.usd_per_hour < known.usd_per_hour:
                cheapest[instance_type] = offer
        return [offer for offer in cheapest.values() if offer.usd_per_hour > 0]

    def _client(self, service: str, region: str) -> Any:
        return self._create_client(service, region_name=region, config=_CONFIG)


def _parse_product(text: str, region: str) -> Offer | None:
    """The offer of one line of the price list; ``None`` where it bills nothing by the hour."""
    try:
        document = json.loads(text)
        instance_type = document["product"]["attributes"]["instanceType"]
        published = str(document.get("publicationDate", "unknown"))[:10]
        rates = list(_hourly_rates(document["terms"].get("OnDemand", {}), instance_type))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise PriceSourceError(f"the price list has a line of another shape: {error!r}") from error
    # Lines at 0 belong to reserved capacity that was paid for elsewhere.
    charged = {rate for rate in rates if rate > 0}
    if not charged:
        return None
    if len(charged) > 1:
        raise PriceSourceError(f"the price list has several rates for one {instance_type}")
    return Offer(
        instance_type=instance_type,
        region=region,
        kind=Price.Kind.ON_DEMAND,
        usd_per_hour=charged.pop(),
        source=f"AWS price list API, published {published}",
    )


def _hourly_rates(terms: dict[str, Any], instance_type: str) -> Iterator[Decimal]:
    for term in terms.values():
        for dimension in term["priceDimensions"].values():
            if dimension["unit"] == "Hrs" and "USD" in dimension["pricePerUnit"]:
                yield _decimal(dimension["pricePerUnit"]["USD"], instance_type)


def _decimal(text: str, instance_type: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation as error:
        raise PriceSourceError(f"the price of {instance_type} is {text!r}") from error
    if not value.is_finite() or value < 0:
        raise PriceSourceError(f"the price of {instance_type} is {text!r}")
    return value


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
