"""Print how accurate forecasts are on CNNs that the models have not seen."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchmarking.suggestions import did_you_mean
from regression.management.commands._machine_argument import add_machine_argument, find_pairs

FORMATS = ("table", "json")


class Command(BaseCommand):
    help = (
        "Prints the errors of forecasts on CNNs that were left out, on families that were left "
        "out, and of the original's method, with the coverage of the 80 % intervals."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_machine_argument(parser)
        parser.add_argument(
            "--format",
            default="table",
            metavar="X",
            help=f"{' or '.join(FORMATS)} (default: table)",
        )
        parser.add_argument(
            "--again", action="store_true", help="compute even where the stored report is current"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["format"] not in FORMATS:
            raise CommandError(
                f"Unknown format '{options['format']}': it is one of {', '.join(FORMATS)}"
                f"{did_you_mean(options['format'], FORMATS)}.",
                returncode=2,
            )
        # Imported late: XGBoost loads slowly, and --help needs none of it.
        from regression.reports import current_report
        from regression.training import TrainingError

        reports = []
        for machine, stack in find_pairs(options["machine"]):
            try:
                reports.append(current_report(machine, stack, again=options["again"]))
            except TrainingError as error:
                self.stderr.write(str(error))
        if not reports:
            raise CommandError("There is nothing to evaluate.", returncode=2)
        if options["format"] == "json":
            self.stdout.write(json.dumps({"machines": reports}, indent=2))
        else:
            for report in reports:
                self.stdout.write(_table(report))


def _table(report: dict[str, Any]) -> str:
    variability = report["run_variability_pct"]
    interval = report["interval"]
    lines = [
        f"{report['machine']} · {report['stack']} · {report['cnns']} CNNs, "
        f"{report['points']} iterations"
        + (f", runs vary by {variability:.1f} %" if variability is not None else ""),
        f"{'error on CNNs not seen, %':38}{'MAPE':>8}{'median':>8}{'90th':>8}",
    ]
    for title, accuracy in (
        ("one CNN left out", report["unseen_cnn"]),
        ("its whole family left out", report["unseen_family"]),
        ("original's method, one CNN left out", report["paper_method"]["unseen_cnn"]),
    ):
        figures = (
            "".join(f"{accuracy[key]:8.1f}" for key in ("mape", "median_ape", "p90_ape"))
            if accuracy
            else f"{'too few CNNs':>24}"
        )
        lines.append(f"{title:38}{figures}")
    if interval["coverage"] is None:
        lines.append("coverage of the 80 % interval: too few CNNs")
    else:
        lines.append(
            f"{100 * interval['nominal']:.0f} % interval: holds {100 * interval['coverage']:.0f} % "
            f"on unseen CNNs (95 % sure of {100 * interval['coverage_low']:.0f} to "
            f"{100 * interval['coverage_high']:.0f}), {interval['mean_width_pct']:.0f} % wide"
        )
    return "\n".join(lines)
