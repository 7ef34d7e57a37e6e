"""Fit and store the models of iteration time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from regression.management.commands._machine_argument import add_machine_argument, find_pairs


class Command(BaseCommand):
    help = (
        "Fits the models of iteration time to the timings of every machine and software stack, "
        "judges them on left-out CNNs and stores both. The same timings give the same model."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_machine_argument(parser)
        parser.add_argument(
            "--export", type=Path, metavar="DIR", help="also write each model as a file into DIR"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        # Imported late: XGBoost loads slowly, and --help needs none of it.
        from regression.model_files import export_model
        from regression.training import TrainingError, train

        failures = []
        pairs = find_pairs(options["machine"])
        for machine, stack in pairs:
            started = time.monotonic()
            try:
                trained = train(machine, stack)
            except TrainingError as error:
                failures.append(str(error))
                continue
            unseen = trained.metrics.get("unseen_cnn")
            accuracy = f", unseen CNNs off by {unseen['mape']:.1f} % (MAPE)" if unseen else ""
            self.stdout.write(
                f"{machine.slug} · {stack}: model {trained.version} from {trained.networks} CNNs, "
                f"{trained.points} iterations{accuracy}, {time.monotonic() - started:.0f} s"
            )
            if options["export"]:
                self.stdout.write(f"  written to {export_model(trained, options['export'])}")
        for failure in failures:
            self.stderr.write(failure)
        if len(failures) == len(pairs):
            raise CommandError("No model could be trained.", returncode=2)
