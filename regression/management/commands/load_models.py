"""Load the trained models that are shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    help = (
        "Loads trained models from files (default: fixtures/models/*.json). Can be repeated: "
        "models that are stored already, or were trained later, stay as they are."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="*", type=Path, metavar="FILE")

    def handle(self, *args: Any, **options: Any) -> None:
        # Imported late: XGBoost loads slowly, and --help needs none of it.
        from regression.model_files import ModelFileError, load_model_file

        folder = settings.BASE_DIR / "fixtures" / "models"
        paths: list[Path] = options["files"] or sorted(folder.glob("*.json"))
        try:
            loaded = sum(load_model_file(path) is not None for path in paths)
        except ModelFileError as error:
            raise CommandError(str(error), returncode=2) from error
        if options["verbosity"] > 0:
            self.stdout.write(f"{loaded} models loaded, {len(paths) - loaded} were there already")
