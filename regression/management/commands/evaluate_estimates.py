"""Show how far estimates are off on networks and devices that were left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from regression.estimator_evaluation import format_table
from regression.estimator_training import (
    PublicDataError,
    read_training_data,
    train_estimator,
)
from regression.stored_reports import DamagedReportError, stored_estimator_report


class Command(BaseCommand):
    help = (
        "Prints the error of estimates per device, precision and family, with whole networks and "
        "whole devices left out, beside three baselines, and the coverage of their intervals. "
        "With --data everything is computed anew, else the stored report is printed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--data", type=Path, metavar="FOLDER", help="Public data sets.")
        parser.add_argument("--format", choices=("table", "json"), default="table")
        parser.add_argument(
            "--traces",
            type=Path,
            metavar="FILE",
            help="Keep the traced networks in this file, and read them from it when it exists.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            evaluation = self._evaluation(options)
        except (PublicDataError, DamagedReportError) as error:
            raise CommandError(str(error), returncode=2) from error
        except ImportError as error:
            raise CommandError(
                f"{error.name} is missing: install requirements-benchmark.txt to trace networks",
                returncode=2,
            ) from error
        if options["format"] == "json":
            self.stdout.write(json.dumps(evaluation, indent=1))
        else:
            self.stdout.write(format_table(evaluation))

    def _evaluation(self, options: dict[str, Any]) -> dict[str, Any]:
        if options["data"] is None:
            stored = stored_estimator_report()
            if stored is None:
                raise DamagedReportError(
                    "there is no stored report: run train_estimator --data FOLDER"
                )
            return stored
        data = read_training_data(options["data"], options["traces"], self.stderr.write)
        return train_estimator(data, self.stderr.write)[2]
