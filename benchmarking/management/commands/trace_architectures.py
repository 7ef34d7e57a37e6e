"""Trace the networks of an architecture source into the fixture that the site loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchmarking.progress import ProgressBar
from benchmarking.tracing.errors import TracingError
from benchmarking.tracing.sources import SOURCES


class Command(BaseCommand):
    help = (
        "Writes fixtures/architectures.json: every convolution layer and operation of a training "
        "iteration of each network. Needs torch (requirements-benchmark.txt), no GPU, no data. "
        "With --image-size or --architectures, what the file holds besides is kept."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--source", choices=sorted(SOURCES), default="torchvision")
        parser.add_argument(
            "--image-size",
            type=int,
            action="append",
            metavar="N",
            help="pixels; may be repeated (default: 14 sizes from 32 to 512 and the size that a "
            "network's published weights were made for)",
        )
        parser.add_argument("--architectures", nargs="+", metavar="SLUG", help="default: all")
        parser.add_argument(
            "--processes", type=int, metavar="N", help="default: as many as there are cores"
        )
        parser.add_argument(
            "--output", type=Path, metavar="FILE", help="default: fixtures/architectures.json"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        output = options["output"] or Path(settings.BASE_DIR) / "fixtures" / "architectures.json"
        try:
            from benchmarking.tracing.update import TraceRequest, update_traced_file

            request = TraceRequest.create(
                source_name=options["source"],
                slugs=options["architectures"],
                image_sizes=options["image_size"],
                processes=options["processes"],
            )
            with ProgressBar(total=len(request.slugs), unit="networks") as bar:
                update = update_traced_file(output, request, on_progress=bar.update)
        except ModuleNotFoundError as error:
            raise CommandError(
                f"Tracing needs {error.name}: pip install -r requirements-benchmark.txt",
                returncode=2,
            ) from error
        except TracingError as error:
            raise CommandError(str(error), returncode=2) from error
        for line in update.skipped_lines():
            self.stdout.write(line)
        self.stdout.write(
            f"{output}: {update.traced} traces of {len(request.slugs)} networks, "
            f"{update.kept} others kept"
        )
