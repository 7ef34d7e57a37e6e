"""The ``--machine`` option that commands of this app share."""

from __future__ import annotations

from django.core.management.base import CommandError, CommandParser

from benchmarking.models import Machine, SoftwareStack
from benchmarking.suggestions import did_you_mean
from regression.selection import trainable_pairs


def add_machine_argument(parser: CommandParser) -> None:
    """Let the user name one machine."""
    parser.add_argument(
        "--machine", metavar="SLUG", help="one machine (default: all with whole iterations)"
    )


def find_pairs(slug: str | None) -> list[tuple[Machine, SoftwareStack]]:
    """The machines and stacks to work on; raises ``CommandError`` where there are none."""
    machine = None
    if slug is not None:
        machine = Machine.objects.filter(slug=slug).first()
        if machine is None:
            slugs = list(Machine.objects.values_list("slug", flat=True))
            raise CommandError(
                f"Unknown machine '{slug}'{did_you_mean(slug, slugs)}.", returncode=2
            )
    pairs = trainable_pairs(machine)
    if not pairs:
        where = f"on {slug}" if slug else "anywhere"
        raise CommandError(
            f"No whole iterations were timed {where}: use benchmark or import_measurements first.",
            returncode=2,
        )
    return pairs
