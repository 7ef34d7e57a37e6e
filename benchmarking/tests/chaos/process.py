"""One process of a chaos test's site: Celery's worker or beat, impatient and with crash points.

    python -m benchmarking.tests.chaos.process FOLDER METADATA_URL worker ...

FOLDER is that of the planned accidents, METADATA_URL what tells spot machines of their end; what
follows is for Celery.
"""

from __future__ import annotations

import functools
import sys
import uuid
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import celery.__main__
import django
from django.apps import apps

from benchmarking.tests.chaos.crash_points import CrashPoints

LEASE_SECONDS = 10.0
POLL_SECONDS = 0.3
SWEEP_SECONDS = 1.0
REAP_SECONDS = 3.0
GRACE = timedelta(seconds=20)

_BEAT_SCHEDULE: Mapping[str, Mapping[str, Any]] = {
    "sweep": {
        "task": "benchmarking.tasks.sweep_benchmark_jobs",
        "schedule": SWEEP_SECONDS,
        "options": {"expires": SWEEP_SECONDS},
    },
    "reap": {
        "task": "benchmarking.tasks.reap_cloud_instances",
        "schedule": REAP_SECONDS,
        "options": {"expires": REAP_SECONDS},
    },
}


def main() -> None:
    """Become Celery, on an installation whose minutes are seconds."""
    folder, metadata_url, *arguments = sys.argv[1:]
    django.setup()
    _hurry(metadata_url)
    crash_points = CrashPoints(Path(folder))
    crash_points.install()
    _watch_steps(crash_points)
    _warm_up()
    sys.argv = ["celery", "--quiet", "--app", "predictor_site", *arguments]
    celery.__main__.main()


def _hurry(metadata_url: str) -> None:
    from benchmarking.hosts.ec2 import host
    from benchmarking.jobs import cleaning, reaper, retry

    for config in apps.get_app_configs():
        if hasattr(config, "beat_schedule"):
            config.beat_schedule = _BEAT_SCHEDULE if config.name == "benchmarking" else {}
    cleaning.RELEASE_RETRY_SECONDS = 1.0
    reaper.GRACE = GRACE
    retry.RETRY_DELAY = timedelta(seconds=1)
    host.SshTarget = functools.partial(  # type: ignore[misc, assignment]
        host.SshTarget, metadata_url=metadata_url, spot_poll_seconds=POLL_SECONDS
    )


def _warm_up() -> None:
    """Read boto3's megabytes once, and not in each child that takes a killed one's place."""
    from benchmarking.hosts.ec2.api import Ec2Api

    for service in ("ec2", "ssm"):
        Ec2Api("us-east-1")._client(service)


def _watch_steps(crash_points: CrashPoints) -> None:
    """Tell the crash points whose step is taken, and take it with short leases."""
    from benchmarking import tasks

    advance_job = tasks.advance_job

    def advance(job_id: uuid.UUID, **options: Any) -> float | None:
        with crash_points.step_of(job_id):
            return advance_job(
                job_id, lease_seconds=LEASE_SECONDS, poll_seconds=POLL_SECONDS, **options
            )

    tasks.advance_job = advance


if __name__ == "__main__":
    main()
