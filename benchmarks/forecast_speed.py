"""Print how long forecasts take on this machine, beside the limits that the project aims at.

Run it on an installation (``script/setup``)::

    .venv/bin/python benchmarks/forecast_speed.py [--architecture SLUG] [--machine SLUG]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "predictor_site.settings")

import django  # noqa: E402

django.setup()

from django.db import connection, transaction  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402

from predictions.forecast import load_choices, make_forecast  # noqa: E402
from predictions.models import ForecastCurve  # noqa: E402
from predictions.query import parse_query  # noqa: E402

BATCH_SIZES = "1-64"
IN_PROCESS_LIMIT_MS = 50.0
SHELL_LIMIT_MS = 3000.0


def median_ms(action: Callable[[], object], repeats: int) -> float:
    """Median duration of ``action`` in milliseconds, after one run that warms up."""
    action()
    durations = []
    for _ in range(repeats):
        started = time.perf_counter()
        action()
        durations.append((time.perf_counter() - started) * 1000)
    return statistics.median(durations)


def print_line(title: str, value: float, unit: str, limit: float | None = None) -> None:
    """One figure, with the limit it is held against."""
    against = f"   (limit {limit:,.0f} {unit})" if limit is not None else ""
    print(f"{title:<58}{value:>10,.1f} {unit}{against}")


def measure_in_process(architecture: str, machine: str) -> None:
    """A forecast over 64 batch sizes: from the stored curve, and computed anew."""
    parameters = {
        "architecture": [architecture],
        "machine": [machine],
        "batch_sizes": [BATCH_SIZES],
    }

    def forecast() -> None:
        make_forecast(parse_query(parameters, load_choices()))

    def forecast_anew() -> None:
        with transaction.atomic():
            ForecastCurve.objects.all().delete()
            make_forecast(parse_query(parameters, load_choices()))
            transaction.set_rollback(True)

    print_line(
        "forecast over 64 batch sizes, stored curve",
        median_ms(forecast, repeats=20),
        "ms",
        IN_PROCESS_LIMIT_MS,
    )
    print_line(
        "forecast over 64 batch sizes, computed",
        median_ms(forecast_anew, repeats=5),
        "ms",
        IN_PROCESS_LIMIT_MS,
    )
    with CaptureQueriesContext(connection) as one:
        forecast()
    parameters["architecture"].append("vgg16" if architecture != "vgg16" else "resnet50")
    forecast()
    with CaptureQueriesContext(connection) as two:
        forecast()
    print_line("database queries for one CNN", len(one), "")
    print_line("database queries for two CNNs", len(two), "")


def measure_shell(architecture: str, machine: str) -> None:
    """``predict`` as a person calls it, with everything that Python has to load."""
    command = [
        *(sys.executable, "manage.py", "predict", architecture),
        *("--machine", machine, "--batch-sizes", BATCH_SIZES),
    ]

    def predict() -> None:
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)

    print_line("predict from the shell", median_ms(predict, repeats=3), "ms", SHELL_LIMIT_MS)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--architecture", default="resnet50")
    parser.add_argument("--machine", default="reference-cpu")
    options = parser.parse_args()
    measure_in_process(options.architecture, options.machine)
    measure_shell(options.architecture, options.machine)


if __name__ == "__main__":
    main()
