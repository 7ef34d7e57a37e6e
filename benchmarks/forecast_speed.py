"""Print how long forecasts and pages take on this machine, beside the limits that are aimed at.

Run it on an installation (``script/setup``)::

    .venv/bin/python benchmarks/forecast_speed.py [--architecture SLUG] [--machine SLUG]
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "predictor_site.settings")

import django  # noqa: E402

django.setup()

from django.db import connection, transaction  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402

from benchmarking.models import Machine  # noqa: E402
from predictions.forecast import load_choices, make_forecast  # noqa: E402
from predictions.models import ForecastCurve  # noqa: E402
from predictions.query import parse_query  # noqa: E402
from predictor_site.warm_up import warm_up  # noqa: E402

BATCH_SIZES = "1-64"
IN_PROCESS_LIMIT_MS = 50.0
SHELL_LIMIT_MS = 3000.0
LARGE_PAGE_ARCHITECTURES = ("resnet50", "vgg16", "mobilenet_v2", "densenet121")
LARGE_PAGE_MACHINES = 12
LARGE_PAGE_LIMIT_MS = 300.0
LARGE_PAGE_LIMIT_KB = 250.0


def median_ms(action: Callable[[], object], repeats: int) -> float:
    """Median duration of ``action`` in milliseconds, after one run that warms up."""
    action()
    durations = []
    for _ in range(repeats):
        started = time.perf_counter()
        action()
        durations.append((time.perf_counter() - started) * 1000)
    return statistics.median(durations)


def p95_ms(action: Callable[[int], object], repeats: int) -> float:
    """95th percentile of the durations of ``action(0)``, ``action(1)``, ... after a warm-up."""
    action(repeats)
    durations = []
    for number in range(repeats):
        started = time.perf_counter()
        action(number)
        durations.append((time.perf_counter() - started) * 1000)
    return statistics.quantiles(durations, n=20)[-1]


def print_line(title: str, value: float, unit: str, limit: float | None = None) -> None:
    """One figure, with the limit it is held against."""
    against = f"   (limit {limit:,.0f} {unit})" if limit is not None else ""
    print(f"{title:<66}{value:>10,.1f} {unit}{against}")


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


def measure_page() -> None:
    """The page with 4 CNNs x 12 machines x 64 batch sizes: made anew, kept, and its weight."""
    client = Client(headers={"Host": "localhost", "Accept-Encoding": "gzip"})
    current = Machine.objects.filter(availability=Machine.Availability.CURRENT)
    machines = current.order_by("slug").values_list("slug", flat=True)[:LARGE_PAGE_MACHINES]
    pairs = [("architecture", slug) for slug in LARGE_PAGE_ARCHITECTURES]
    pairs += [("machine", slug) for slug in machines]
    query = urlencode([*pairs, ("batch_sizes", BATCH_SIZES)])

    def fetch(epochs: int) -> int:
        # Another number of epochs is another page, which nobody has kept.
        response = client.get(f"/?{query}&epochs={epochs + 1}")
        if response.status_code != 200:
            raise SystemExit(f"/?{query} answers {response.status_code}")
        return len(response.content)

    title = f"{len(LARGE_PAGE_ARCHITECTURES)} CNNs x {len(machines)} machines x 64 batch sizes"
    anew = p95_ms(fetch, repeats=40)
    print_line(f"page of {title}, made anew, p95", anew, "ms", LARGE_PAGE_LIMIT_MS)
    print_line("the same page, kept", median_ms(lambda: fetch(0), repeats=20), "ms")
    with CaptureQueriesContext(connection) as queries:
        size = fetch(50)
    print_line("database queries for it", len(queries), "")
    print_line("its size, compressed, without plotly.js", size / 1000, "kB", LARGE_PAGE_LIMIT_KB)
    with CaptureQueriesContext(connection) as queries:
        client.get("/?architecture=resnet50&machine=reference-cpu&epochs=3")
    print_line("database queries for a page of one CNN on one machine", len(queries), "")


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
    logging.disable(logging.INFO)
    warm_up()
    measure_in_process(options.architecture, options.machine)
    measure_page()
    measure_shell(options.architecture, options.machine)


if __name__ == "__main__":
    main()
