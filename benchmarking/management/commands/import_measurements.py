"""Store what a probe printed on any machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from benchmarking.jobs.dnnmark_logs import LogHints
from benchmarking.jobs.ingest import IngestError, StoredCounts, store_results
from benchmarking.jobs.provenance import ProvenanceError, find_machine
from benchmarking.jobs.results_files import ResultsFileError, read_results_file
from benchmarking.probe.dnnmark.layer_names import LayerNameError, layer_of_name
from benchmarking.probe.dnnmark.log import MAXIMUM_BATCH_SIZE
from benchmarking.probe.results import ResultLine
from benchmarking.progress import ProgressBar


class Command(BaseCommand):
    help = (
        "Imports result files of the probe (.jsonl or .jsonl.gz) and recorded logs of DNNMark "
        "(any other name, .gz too) from any machine. Can be repeated: timings that are stored "
        "already are skipped. If one file is wrong, nothing of any file is stored."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
        parser.add_argument(
            "--machine",
            metavar="SLUG",
            help="Machine the timings were taken on; by default the one that the file names.",
        )
        parser.add_argument(
            "--layer",
            metavar="H-W-C-K-S-P-U",
            help="Layer of a DNNMark log that does not say it: image height and width, input "
            "channels, output channels, kernel, padding, stride.",
        )
        parser.add_argument(
            "--batch-size", type=int, metavar="N", help="Batch size of a DNNMark log of one."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        counts = StoredCounts()
        files: list[Path] = options["files"]
        bar = ProgressBar(total=2 * len(files), unit="steps", enabled=options["verbosity"] > 0)
        try:
            hints = _read_hints(options)
            contents: list[list[ResultLine]] = []
            with bar:
                for path in files:
                    bar.update(len(contents), f"reading {path.name}")
                    contents.append(read_results_file(path, hints))
                with transaction.atomic():
                    for number, (path, records) in enumerate(zip(files, contents, strict=True)):
                        bar.update(len(files) + number, f"storing {path.name}")
                        try:
                            counts.add(store_results(records, machine=hints.machine))
                        except (IngestError, ProvenanceError) as error:
                            raise CommandError(f"{path}: {error}", returncode=2) from error
        except (LayerNameError, ProvenanceError, ResultsFileError) as error:
            raise CommandError(str(error), returncode=2) from error
        self.stdout.write(_summary(counts))


def _read_hints(options: dict[str, Any]) -> LogHints:
    batch_size = options["batch_size"]
    if batch_size is not None and not 1 <= batch_size <= MAXIMUM_BATCH_SIZE:
        raise CommandError(f"--batch-size is from 1 to {MAXIMUM_BATCH_SIZE}.", returncode=2)
    return LogHints(
        machine=find_machine(options["machine"]) if options["machine"] else None,
        layer=layer_of_name(options["layer"]) if options["layer"] else None,
        batch_size=batch_size,
    )


def _summary(counts: StoredCounts) -> str:
    machines = ", ".join(sorted(counts.machines)) or "no machine"
    return (
        f"{machines}: {counts.layer_timings} layer timings, {counts.iteration_timings} iteration "
        f"timings and {counts.failures} failures stored from {counts.runs} new runs; "
        f"{counts.duplicates} were stored before"
    )
