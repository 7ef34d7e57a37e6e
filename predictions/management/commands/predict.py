"""``predict``: forecasts on the command line, the same rows that the page shows."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError, ProgrammingError

from benchmarking.suggestions import did_you_mean_sentence
from predictions.query import (
    OPTIMIZERS,
    PRECISIONS,
    PRICE_KINDS,
    SINGLE_OPTIONS,
    Choices,
    ForecastQuery,
    QueryError,
    parse_query,
)

FORMATS = ("table", "json", "csv")


class Command(BaseCommand):
    """Forecast iteration time, epoch time and cost over batch size."""

    help = "Forecast epoch time and cost of CNNs on machines, over batch size."
    # Checking templates and settings would take longer than the answer.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Options are plain texts: the query's own parser reads them, as it does for the page."""
        parser.add_argument(
            "architecture", nargs="*", metavar="ARCH", help="CNN, for example resnet50"
        )
        for name, text in (
            ("machine", "machines, for example aws-g4dn.xlarge"),
            ("device", "devices alone, without a price, for example t4"),
        ):
            parser.add_argument(
                f"--{name}", nargs="+", action="extend", default=[], metavar="SLUG", help=text
            )
        helps = {
            "batch_sizes": "for example 1-64 or 8,16,32 (default: 1, 2, 4, 8, ... up to what fits)",
            "examples": "training examples in an epoch (default: 1281167, ImageNet-1k)",
            "epochs": "passes over the examples (default: 1)",
            "precision": f"{', '.join(PRECISIONS)} (default: what PyTorch does unasked)",
            "image_size": "pixels (default: 224, and 299 for inception_v3)",
            "price": f"{' or '.join(PRICE_KINDS)} (default: on-demand)",
            "region": "region whose prices count (default: us-east-1)",
            "optimizer": f"{' or '.join(OPTIMIZERS)} (default: sgd)",
            "loader_images_per_second": "rate of the input pipeline (default: no bound)",
            "interruption_overhead": "percent more time for interruptions "
            "(default: 10 with --price spot, else 0)",
            "start_minutes": "minutes to start a machine, part of the totals (default: 0)",
            "storage_gib": "storage while training, part of the cost (default: 0)",
            "storage_usd_per_gib_month": "price of that storage (default: 0.08)",
            "max_usd": "leave out what costs more in total",
            "max_hours": "leave out what takes longer in total",
            "max_memory_gib": "leave out what needs more memory",
        }
        for option in SINGLE_OPTIONS:
            parser.add_argument(
                f"--{option.name.replace('_', '-')}", metavar="X", help=helps[option.name]
            )
        parser.add_argument(
            "--format", default="table", metavar="X", help=f"{', '.join(FORMATS)} (default: table)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Parse, forecast, print."""
        output = options["format"]
        if output not in FORMATS:
            raise CommandError(
                f"Unknown format '{output}': it is one of {', '.join(FORMATS)}."
                f"{did_you_mean_sentence(output, FORMATS)}",
                returncode=2,
            )
        # Imported late: --help and a wrong option need no models.
        from predictions.forecast import load_choices, make_forecast

        try:
            query = read_options(options, load_choices(options["architecture"]))
            text = _render(output, make_forecast(query))
        except QueryError as error:
            raise CommandError(str(error), returncode=2) from error
        except (OperationalError, ProgrammingError) as error:
            reason = " ".join(str(error).split())
            raise CommandError(
                f"The database is not ready ({reason}): run script/setup first.", returncode=2
            ) from error
        self.stdout.write(text, ending="" if text.endswith("\n") else "\n")


def read_options(options: dict[str, Any], choices: Choices) -> ForecastQuery:
    """The query that the command line asks; raises :class:`QueryError`."""
    texts: dict[str, list[str]] = {
        name: options[name] for name in ("architecture", "machine", "device")
    }
    for option in SINGLE_OPTIONS:
        if options[option.name] is not None:
            # An empty text counts as not given on the page; here somebody typed it.
            texts[option.name] = [options[option.name] or "''"]
    return parse_query(texts, choices)


def _render(output: str, forecast: Any) -> str:
    from predictions.exports import to_csv_text, to_json_text
    from predictions.texttable import to_text_table

    if output == "json":
        return to_json_text(forecast, indent=2)
    return to_csv_text(forecast.rows) if output == "csv" else to_text_table(forecast)
