"""One benchmark job through a played EC2 and real SSH on this computer, from plan to forecast.

``script/demo-benchmark`` runs it. EC2 is played by moto on 127.0.0.1 and the instance is an SSH
server on another loopback address; planner, Celery worker, SSH, probe with torch, timings, bill,
training and forecast are the real ones. Nothing is asked beyond this computer, and nothing of it
stays unless a folder or a database is named.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import django
from django.core.management import call_command
from django.db.models import F

from benchmarking.tests.cloud.local_cloud import INSTANCE_TYPE, REGION, LocalCloud

if TYPE_CHECKING:
    from benchmarking.models import BenchmarkJob
    from predictor_site.server import Children

MACHINE = "demo-cloud"
NETWORK = "squeezenet1_1"
BATCH_SIZES = "1"
USD_PER_HOUR = "0.17"
LONGEST_SECONDS = 600.0
_POLL_SECONDS = 0.25


def main() -> int:
    """Run the demonstration; 0 where the job succeeded and nothing is left running."""
    options = _options()
    began = time.monotonic()
    with _folder(options.folder) as folder:
        var_folder = folder / "var"
        var_folder.mkdir(parents=True)
        with LocalCloud(folder / "machines", probe=None) as cloud:
            _prepare(cloud, var_folder, options)
            stored, is_good = _run_job()
            live = len(cloud.front.live())
    seconds = time.monotonic() - began
    print(f"{stored} new timings stored, {live} live instances, {seconds:.0f} s")
    return 0 if is_good and live == 0 else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="script/demo-benchmark",
        # What is wrong fits into one line; the script itself has the help.
        usage=argparse.SUPPRESS,
        description="One benchmark job through a played cloud on this computer.",
    )
    parser.add_argument("--database-url", default="", help="an empty database, by default SQLite")
    parser.add_argument("--broker-url", default="", help="redis://..., by default filesystem://")
    parser.add_argument("--folder", type=Path, help="a new folder to keep what is written")
    options = parser.parse_args()
    if options.folder is not None and options.folder.exists():
        parser.error(f"--folder must not be there yet: {options.folder}")
    return options


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True)
        yield kept.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="epochcast-demo-") as name:
        yield Path(name)


def _prepare(cloud: LocalCloud, var_folder: Path, options: argparse.Namespace) -> None:
    """An installation of its own in ``var_folder``, with a machine like this computer."""
    _say("The cloud: EC2 played by moto, its instances SSH servers on loopback addresses")
    for variable in ("DATABASE_URL", "CELERY_BROKER_URL", "SECRET_KEY_FILE", "ALLOWED_HOSTS"):
        os.environ.pop(variable, None)
    os.environ |= cloud.environment(var_folder)
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "predictor_site.settings",
        "LOG_LEVEL": "WARNING",
        "SECRET_KEY": "of the demonstration",
    }
    if options.database_url:
        os.environ["DATABASE_URL"] = options.database_url
    if options.broker_url:
        os.environ["CELERY_BROKER_URL"] = options.broker_url
    django.setup()
    call_command("migrate", verbosity=0)
    call_command("load_architectures", verbosity=0, stdout=io.StringIO())
    from benchmarking.models import Device, Machine, Price

    device = Device.objects.create(slug="demo-cpu", name="CPU of this computer", kind="cpu")
    machine = Machine.objects.create(
        slug=MACHINE,
        provider="aws",
        instance_type=INSTANCE_TYPE,
        device=device,
        region=REGION,
    )
    Price.objects.create(
        machine=machine,
        region=REGION,
        usd_per_hour=USD_PER_HOUR,
        as_of=date.today().isoformat(),
        source="made up for the demonstration",
    )
    print(f"{cloud.front.url} · {machine}: {INSTANCE_TYPE} at {USD_PER_HOUR} USD an hour (made up)")


def _run_job() -> tuple[int, bool]:
    """Plan, measure and forecast; the timings stored, and whether everything went well."""
    from predictor_site.server import Children, child_commands

    commands = child_commands("127.0.0.1", 0)
    # They start while the plan is made.
    workers = Children({role: commands[role] for role in ("worker", "beat")})
    try:
        _say("The forecast before")
        _print_forecast()
        _say("The plan, confirmed")
        call_command(
            "benchmark",
            machine=MACHINE,
            host="ec2",
            architectures=[NETWORK],
            batch_sizes=BATCH_SIZES,
            yes=True,
        )
        job = _follow(workers)
        _say("What was measured and paid")
        stored = _print_results(job)
        is_trained = bool(stored) and _wait_for_model(workers)
    finally:
        workers.stop(threading.Event())
    _say("The forecast after")
    _print_forecast()
    print()
    return stored, job.state == job.State.SUCCEEDED and is_trained


def _follow(workers: Children) -> BenchmarkJob:
    """Print the job's events as they come, until its end or that of a worker."""
    from benchmarking.models import BenchmarkJob, JobEvent

    _say("The job, advanced by a Celery worker")
    last_event = 0
    began = time.monotonic()
    while True:
        job = BenchmarkJob.objects.defer("plan").latest("created_at")
        for event in JobEvent.objects.filter(job=job, pk__gt=last_event).order_by("pk"):
            last_event = event.pk
            state = event.new_state or job.state
            print(f"{event.at:%H:%M:%S}  {state:<16}  {event.message}".rstrip(), flush=True)
        if job.is_final:
            return job
        if not _may_wait(workers, began):
            return job
        time.sleep(_POLL_SECONDS)


def _wait_for_model(workers: Children) -> bool:
    """Wait until a worker has trained with the new timings and refreshed what is forecast of them.

    It waits 20 s for more timings before.
    """
    from predictions.models import ForecastCurve
    from regression.models import TrainedModel

    began = time.monotonic()
    models = TrainedModel.objects.filter(machine__slug=MACHINE, is_active=True)
    stale_curves = ForecastCurve.objects.filter(place=MACHINE, stale_since__gte=F("computed_at"))
    while not (model := models.first()) or stale_curves.exists():
        if not _may_wait(workers, began):
            return False
        time.sleep(_POLL_SECONDS)
    print(
        f"The worker has trained {model.machine}'s model with {model.layer_timing_count} timings "
        f"of layers and {model.iteration_timing_count} of iterations"
    )
    return True


def _may_wait(workers: Children, began: float) -> bool:
    """Whether something may still come; says why not."""
    if (role := workers.first_ended()) is not None:
        print(f"The {role} has ended: nobody goes on.", file=sys.stderr)
        return False
    if time.monotonic() - began > LONGEST_SECONDS:
        print(f"Not over after {LONGEST_SECONDS:.0f} s: given up.", file=sys.stderr)
        return False
    return True


def _print_results(job: BenchmarkJob) -> int:
    """The instance's bill and the first timings; how many timings were stored."""
    from benchmarking.models import CloudInstance, IterationTiming, LayerTiming

    for instance in CloudInstance.objects.filter(job=job):
        print(
            f"{instance.instance_id} in {instance.zone}: {instance.get_state_display().lower()}, "
            f"{instance.cost_usd} USD of {instance.reserved_usd} USD reserved"
        )
    layers = LayerTiming.objects.filter(run__job=job).select_related("layer")
    iterations = IterationTiming.objects.filter(run__job=job).select_related("architecture")
    for iteration in iterations.order_by("batch_size"):
        print(
            f"{iteration.architecture} x {iteration.batch_size}: "
            f"{iteration.milliseconds:.1f} ms an iteration"
        )
    for timing in layers.order_by("pk")[:3]:
        print(
            f"{timing.layer.key} x {timing.batch_size} {timing.operation}: "
            f"{timing.milliseconds:.2f} ms"
        )
    counts = layers.count(), iterations.count()
    print(f"{counts[0]} timings of convolution layers, {counts[1]} of iterations")
    return sum(counts)


def _print_forecast() -> None:
    call_command("predict", NETWORK, machine=[MACHINE], batch_sizes=BATCH_SIZES, examples="50000")


def _say(title: str) -> None:
    print(f"\n== {title}", flush=True)


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("Interrupted; nothing is left running.", file=sys.stderr)
        sys.exit(130)
