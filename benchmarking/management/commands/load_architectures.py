"""Load traced networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchmarking.catalogue.architectures import load_architectures
from benchmarking.catalogue.errors import CatalogueError


class Command(BaseCommand):
    help = (
        "Loads traced networks with their layers, by default fixtures/architectures*.json and "
        "*.json.gz. Can be repeated: a changed trace replaces what it describes, and timings "
        "stay."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="*", type=Path, metavar="FILE")

    def handle(self, *args: Any, **options: Any) -> None:
        files = options["files"] or _shipped_files()
        if not files:
            raise CommandError(
                "There is no fixtures/architectures.json: trace_architectures writes it.",
                returncode=2,
            )
        try:
            report = load_architectures(files)
        except CatalogueError as error:
            raise CommandError(str(error), returncode=2) from error
        for line in report.left_alone:
            self.stdout.write(f"left alone: {line}")
        if not (report.created or report.replaced or report.layers_created):
            self.stdout.write(f"Nothing to change: {report.unchanged} architectures are loaded.")
            return
        self.stdout.write(
            f"architectures: {report.created} created, {report.replaced} replaced, "
            f"{report.unchanged} unchanged; layers: {report.layers_created} created"
        )


def _shipped_files() -> list[Path]:
    folder = Path(settings.BASE_DIR) / "fixtures"
    return sorted([*folder.glob("architectures*.json"), *folder.glob("architectures*.json.gz")])
