"""Store what a probe printed on any machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from benchmarking.jobs.ingest import IngestError, StoredCounts, store_results
from benchmarking.jobs.provenance import ProvenanceError, find_machine
from benchmarking.jobs.results_files import ResultsFileError, read_results_file
from benchmarking.probe.results import ResultLine
from benchmarking.progress import ProgressBar


class Command(BaseCommand):
    help = (
        "Imports result files of the probe (.jsonl or .jsonl.gz) from any machine. Can be "
        "repeated: timings that are stored already are skipped. If one file is wrong, nothing "
        "of any file is stored."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
        parser.add_argument(
            "--machine",
            metavar="SLUG",
            help="Machine the timings were taken on; by default the one that the file names.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        counts = StoredCounts()
        files: list[Path] = options["files"]
        bar = ProgressBar(total=2 * len(files), unit="steps", enabled=options["verbosity"] > 0)
        try:
            machine = find_machine(options["machine"]) if options["machine"] else None
            contents: list[list[ResultLine]] = []
            with bar:
                for path in files:
                    bar.update(len(contents), f"reading {path.name}")
                    contents.append(read_results_file(path))
                with transaction.atomic():
                    for number, (path, records) in enumerate(zip(files, contents, strict=True)):
                        bar.update(len(files) + number, f"storing {path.name}")
                        try:
                            counts.add(store_results(records, machine=machine))
                        except (IngestError, ProvenanceError) as error:
                            raise CommandError(f"{path}: {error}", returncode=2) from error
        except (ProvenanceError, ResultsFileError) as error:
            raise CommandError(str(error), returncode=2) from error
        self.stdout.write(_summary(counts))


def _summary(counts: StoredCounts) -> str:
    machines = ", ".join(sorted(counts.machines)) or "no machine"
    return (
        f"{machines}: {counts.layer_timings} layer timings, {counts.iteration_timings} iteration "
        f"timings and {counts.failures} failures stored from {counts.runs} new runs; "
        f"{counts.duplicates} were stored before"
    )
