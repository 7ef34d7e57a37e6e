"""Refresh prices from AWS."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchmarking.models import Price
from benchmarking.prices.aws import AwsPriceSource
from benchmarking.prices.refresh import refresh_prices
from benchmarking.prices.source import MissingCredentialsError
from benchmarking.suggestions import did_you_mean


class Command(BaseCommand):
    help = (
        "Asks the AWS price list and the spot price history for the machines known here, adds the "
        "prices that changed, and retires machines that are gone. Needs AWS credentials with "
        "pricing:GetProducts and ec2:DescribeSpotPriceHistory. Exits with 1 if a region failed: "
        "its old prices stay."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--region",
            action="append",
            default=[],
            help="A region such as us-east-1; may be repeated. Default: every region with prices.",
        )
        parser.add_argument(
            "--kind",
            action="append",
            default=[],
            choices=[kind.value for kind in Price.Kind],
            help="Default: both.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        source = AwsPriceSource()
        for region in options["region"]:
            _check_region(region, source.regions)
        kinds = [Price.Kind(kind) for kind in dict.fromkeys(options["kind"])] or list(Price.Kind)
        try:
            report = refresh_prices(
                source, regions=list(dict.fromkeys(options["region"])), kinds=kinds
            )
        except MissingCredentialsError as error:
            raise CommandError(str(error), returncode=2) from error
        for line in report.added:
            self.stdout.write(f"new: {line}")
        for line in report.retired:
            self.stdout.write(f"retired: {line}")
        for line in report.offered_again:
            self.stdout.write(f"offered again: {line}")
        for line in report.failed:
            self.stderr.write(line)
        self.stdout.write(
            f"{len(report.added)} prices added, {report.unchanged} unchanged, "
            f"{len(report.retired)} machines retired"
        )
        if report.failed:
            raise CommandError(f"{len(report.failed)} price lists failed", returncode=1)


def _check_region(region: str, allowed: tuple[str, ...]) -> None:
    if region not in allowed:
        hint = did_you_mean(region, allowed) or f"; allowed are {', '.join(allowed)}"
        raise CommandError(f"{region!r} is no AWS region{hint}", returncode=2)
