"""Load the shipped devices, machines and prices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchmarking.catalogue.errors import CatalogueError
from benchmarking.catalogue.loading import load_catalogue


class Command(BaseCommand):
    help = (
        "Loads devices, machines and prices from the catalogue's files. Can be repeated: values "
        "that were changed here stay, and prices are only ever added."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--directory",
            type=Path,
            default=Path(settings.BASE_DIR) / "fixtures" / "catalogue",
            help="Folder of devices.json, cpus.json, machines.json and prices.json.",
        )
        parser.add_argument(
            "--overwrite",
            action="store_true",
            help="Replace values that were changed here since they were loaded.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            report = load_catalogue(options["directory"], overwrite=options["overwrite"])
        except CatalogueError as error:
            raise CommandError(str(error), returncode=2) from error
        for line in report.kept:
            self.stdout.write(f"kept: {line}")
        if not report.changed:
            held = ", ".join(f"{number} {kind}" for kind, number in report.unchanged.items())
            self.stdout.write(f"Nothing to change: {held} are loaded.")
            return
        for kind in report.created:
            self.stdout.write(
                f"{kind}: {report.created[kind]} created, {report.updated[kind]} updated, "
                f"{report.unchanged[kind]} unchanged"
            )
