"""End cloud instances by hand."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from benchmarking.management.instance_options import (
    add_region_options,
    chosen_regions,
    report_failures,
)
from benchmarking.progress import format_duration
from benchmarking.suggestions import did_you_mean

if TYPE_CHECKING:
    from benchmarking.jobs.inventory import LiveInstance

POLL_SECONDS = 5.0
LONGEST_WAIT_SECONDS = 300.0


class Command(BaseCommand):
    help = (
        "Terminates EC2 instances of this installation and cancels their jobs, which keep what "
        "they have stored; waits until AWS confirms the end. Needs AWS credentials with "
        "ec2:DescribeInstances and ec2:TerminateInstances, and no Celery. Asks before; exits "
        "with 1 if something still lives or a region could not be seen."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("ids", nargs="*", metavar="ID", help="As list_instances shows them.")
        parser.add_argument(
            "--all", action="store_true", help="Every instance, and launches without an answer."
        )
        add_region_options(parser)
        parser.add_argument("--yes", action="store_true", help="Do not ask.")

    def handle(self, *args: Any, **options: Any) -> None:
        from benchmarking.jobs.inventory import take_inventory

        if bool(options["ids"]) == options["all"]:
            raise CommandError(
                "say which: either ids, as list_instances shows them, or --all", returncode=2
            )
        regions = chosen_regions(options)
        inventory = take_inventory(regions)
        has_failures = report_failures(inventory, self.stderr.write)
        chosen = inventory.instances if options["all"] else _choose(inventory, options["ids"])
        if not chosen:
            self.stdout.write(f"Nothing lives in {', '.join(regions)}.")
        elif options["yes"] or self._is_confirmed(chosen):
            self._end(chosen)
        if has_failures:
            raise CommandError("not every region could be seen", returncode=1)

    def _is_confirmed(self, chosen: list[LiveInstance]) -> bool:
        now = timezone.now()
        for instance in chosen:
            age = instance.age(now)
            since = "" if age is None else f", for {format_duration(age.total_seconds())}"
            self.stdout.write(
                f"{instance.id or 'a launch without an answer'}  {instance.instance_type} in "
                f"{instance.zone}, {instance.state}{since}, job {instance.job_id or 'unknown'}"
            )
        if not sys.stdin.isatty():
            raise CommandError("--yes ends them where nobody can be asked", returncode=2)
        answer = input(f"End {_count(chosen)}? [y/N] ").strip().lower()
        if answer in ("y", "yes"):
            return True
        self.stdout.write("Nothing was ended.")
        return False

    def _end(self, chosen: list[LiveInstance]) -> None:
        """Ask for the end of each, then ask how they are until they are over."""
        from benchmarking.hosts.ec2.errors import Ec2Error

        for instance in chosen:
            _cancel(instance)
        left, errors = list(chosen), {}
        deadline = time.monotonic() + LONGEST_WAIT_SECONDS
        while True:
            for instance in list(left):
                try:
                    if _is_over(instance):
                        left.remove(instance)
                        self.stdout.write(f"{instance.id or 'the launch'} has ended.")
                except Ec2Error as error:
                    errors[instance.id] = str(error)
            if not left or errors or time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
        for message in errors.values():
            self.stderr.write(message)
        if left:
            names = ", ".join(instance.id or "a launch without an answer" for instance in left)
            raise CommandError(
                f"not confirmed as ended: {names}; the reaper goes on asking, or call this again",
                returncode=1,
            )


def _choose(inventory: Any, ids: list[str]) -> list[LiveInstance]:
    by_id = {instance.id: instance for instance in inventory.instances if instance.id}
    for instance_id in ids:
        if instance_id not in by_id:
            hint = did_you_mean(instance_id, by_id) or (
                f"; these are: {', '.join(by_id)}" if by_id else "; there is none"
            )
            raise CommandError(
                f"{instance_id!r} is no live instance of this installation{hint}", returncode=2
            )
    return [by_id[instance_id] for instance_id in dict.fromkeys(ids)]


def _cancel(instance: LiveInstance) -> None:
    """A job that lost its machine for no reason it knows would start another one."""
    from benchmarking.jobs.lifecycle import cancel_job

    if instance.row is not None:
        cancel_job(
            instance.row.job,
            message=f"Cancelled: {instance.id or 'its launch'} was ended with terminate_instances.",
        )


def _is_over(instance: LiveInstance) -> bool:
    from benchmarking.hosts.ec2.api import Ec2Api
    from benchmarking.hosts.ec2.termination import end_instance

    api = Ec2Api(instance.region)
    if instance.row is not None:
        instance.row.refresh_from_db()
        return end_instance(instance.row, api)
    api.terminate(instance.id)
    view = api.find(instance.id)
    return view is not None and view.is_over


def _count(chosen: list[LiveInstance]) -> str:
    return "this instance" if len(chosen) == 1 else f"these {len(chosen)} instances"
