"""What the commands about cloud instances share: their regions, and how failures are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError, CommandParser

from benchmarking.suggestions import did_you_mean

if TYPE_CHECKING:
    from benchmarking.jobs.inventory import Inventory


def add_region_options(parser: CommandParser) -> None:
    """Add ``--region`` and ``--all-regions``."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--region",
        action="append",
        default=[],
        help="A region such as us-east-1; may be repeated. Default: EC2_REGIONS and every region "
        "that ever had an instance.",
    )
    group.add_argument(
        "--all-regions", action="store_true", help="Every region that the account may use."
    )


def chosen_regions(options: Mapping[str, Any]) -> list[str]:
    """The regions that the options ask for.

    Raises ``CommandError`` with exit code 2 for a region that does not exist, and where
    ``--all-regions`` cannot be asked for.
    """
    from benchmarking.hosts.ec2.api import Ec2Api
    from benchmarking.hosts.ec2.errors import Ec2Error
    from benchmarking.hosts.ec2.regions import known_regions
    from benchmarking.jobs.inventory import default_regions

    if options["all_regions"]:
        try:
            return Ec2Api((default_regions() or ["us-east-1"])[0]).list_regions()
        except Ec2Error as error:
            raise CommandError(str(error), returncode=2) from error
    allowed = known_regions()
    for region in options["region"]:
        if region not in allowed:
            hint = did_you_mean(region, allowed) or f"; allowed are {', '.join(allowed)}"
            raise CommandError(f"{region!r} is no AWS region{hint}", returncode=2)
    regions = list(dict.fromkeys(options["region"])) or default_regions()
    if not regions:
        raise CommandError("no region to look at: give --region or --all-regions", returncode=2)
    return regions


def report_failures(inventory: Inventory, write: Callable[[str], Any]) -> bool:
    """Tell which regions could not be seen; whether there are any.

    Raises ``CommandError`` with exit code 2, in one line, if AWS knows no credentials of ours.
    """
    from benchmarking.hosts.ec2.errors import ErrorClass

    for error in inventory.failed.values():
        if error.error_class is ErrorClass.CREDENTIALS:
            raise CommandError(str(error), returncode=2)
    for error in inventory.failed.values():
        write(str(error))
    return bool(inventory.failed)
