"""Show which of our cloud instances live and what they have cost so far."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from benchmarking.management.instance_options import (
    add_region_options,
    chosen_regions,
    report_failures,
)
from benchmarking.money import usd_digits
from benchmarking.progress import format_duration

_HEADINGS = ("region", "instance", "type", "state", "age", "job", "USD so far")


class Command(BaseCommand):
    help = (
        "Lists the EC2 instances of this installation that are not terminated, by their tag, and "
        "launches without an answer. Needs AWS credentials with ec2:DescribeInstances, and no "
        "Celery. Exits with 1 if a region could not be seen."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_region_options(parser)
        parser.add_argument("--format", choices=("table", "json"), default="table")

    def handle(self, *args: Any, **options: Any) -> None:
        # Commands that touch no cloud start without boto3.
        from benchmarking.jobs.inventory import LiveInstance, take_inventory

        now = timezone.now()

        def cells(instance: LiveInstance) -> Sequence[str]:
            age, cost_usd = instance.age(now), instance.cost_usd(now)
            return (
                instance.region,
                instance.id or "-",
                instance.instance_type,
                instance.state,
                "-" if age is None else format_duration(age.total_seconds()),
                instance.job_id or "-",
                "?" if cost_usd is None else usd_digits(cost_usd),
            )

        regions = chosen_regions(options)
        inventory = take_inventory(regions)
        if options["format"] == "json":
            rows = [instance.as_json(now) for instance in inventory.instances]
            self.stdout.write(json.dumps({"instances": rows}, indent=2))
        elif inventory.instances:
            for line in _aligned([_HEADINGS, *map(cells, inventory.instances)]):
                self.stdout.write(line)
        elif len(inventory.failed) < len(regions):
            seen = [region for region in regions if region not in inventory.failed]
            self.stdout.write(f"No instance of this installation lives in {', '.join(seen)}.")
        if report_failures(inventory, self.stderr.write):
            raise CommandError(
                f"{len(inventory.failed)} of {len(regions)} regions could not be seen",
                returncode=1,
            )


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Columns of text, the last one to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join([*map(str.ljust, row[:-1], widths), row[-1].rjust(widths[-1])]) for row in table
    ]
