"""Fit the estimator for devices nobody measured, from public data sets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from regression.estimator_training import (
    PublicDataError,
    read_training_data,
    train_estimator,
    write_evaluation,
)
from regression.stored_reports import ESTIMATOR_FOLDER


class Command(BaseCommand):
    help = (
        "Fits the estimator for devices nobody measured on published timings, evaluates it on "
        "networks and devices that are left out, and writes both. Equal data give equal files. "
        "Tracing the networks needs torch, torchvision and timm (requirements-benchmark.txt)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--data", type=Path, required=True, metavar="FOLDER", help="Public data sets."
        )
        parser.add_argument(
            "--output",
            type=Path,
            default=ESTIMATOR_FOLDER,
            metavar="FOLDER",
            help="Where the estimator goes (default: fixtures/estimator).",
        )
        parser.add_argument(
            "--traces",
            type=Path,
            metavar="FILE",
            help="Keep the traced networks in this file, and read them from it when it exists.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        _make_writable_folder(options["output"])
        try:
            data = read_training_data(options["data"], options["traces"], self.stdout.write)
        except PublicDataError as error:
            raise CommandError(str(error), returncode=2) from error
        except ImportError as error:
            raise CommandError(
                f"{error.name} is missing: install requirements-benchmark.txt to trace networks",
                returncode=2,
            ) from error
        estimator, record, evaluation = train_estimator(data, self.stdout.write)
        estimator.save(options["output"], record)
        write_evaluation(options["output"], evaluation)
        self.stdout.write(f"{estimator.model_version} written to {options['output']}")


def _make_writable_folder(folder: Path) -> None:
    """Say that it cannot be written before minutes of training."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(
            f"--output {folder} cannot be made a folder: {error.strerror}", returncode=2
        ) from error
    if not os.access(folder, os.W_OK):
        raise CommandError(f"--output {folder} cannot be written", returncode=2)
