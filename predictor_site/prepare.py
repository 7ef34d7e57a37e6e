"""Bring database and static files up to date: ``python -m predictor_site.prepare``.

One process for all steps, so that a second call takes seconds. Each step is idempotent.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path

import django
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import DatabaseError

# Parts of installed packages that no page here loads; compressing them takes most of the time.
UNUSED_STATIC_FILES = ["redoc", "rest_framework", "htmax-4*"]


def static_fingerprint() -> str:
    """What the collected static files were made from: our own files and the pinned packages."""
    digest = hashlib.sha256((settings.BASE_DIR / "requirements.txt").read_bytes())
    digest.update(Path(__file__).read_bytes())
    for path in sorted((settings.BASE_DIR / "static").rglob("*")):
        if path.is_file():
            digest.update(str(path.relative_to(settings.BASE_DIR)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def collect_static_files() -> None:
    """Hash and compress static files, which takes some seconds, only where something changed."""
    stamp = Path(settings.STATIC_ROOT) / "fingerprint"
    fingerprint = static_fingerprint()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == fingerprint:
        return
    call_command(
        "collectstatic",
        interactive=False,
        clear=True,
        ignore_patterns=UNUSED_STATIC_FILES,
        verbosity=0,
    )
    stamp.write_text(fingerprint, encoding="utf-8")


def load_shipped_data() -> None:
    """Load the fixtures in the order in which they lean on each other."""
    timings = sorted((settings.BASE_DIR / "fixtures" / "timings").glob("*.jsonl.gz"))
    steps: list[tuple[str, list[str]]] = [
        ("load_catalogue", []),
        ("load_architectures", []),
        ("import_measurements", [str(path) for path in timings]),
        ("load_models", []),
    ]
    for command, arguments in steps:
        call_command(command, *arguments, verbosity=0)


def check_automatic_machines() -> None:
    """Refuse a setting that names machines which the catalogue does not have."""
    from benchmarking.jobs.automatic_machines import wrong_machines

    for sentence in wrong_machines().unknown:
        raise ImproperlyConfigured(sentence)


def compute_first_forecast() -> None:
    """Store the curves of the front page's example, so that its first visitor does not wait."""
    from predictions.forecast import load_choices, make_forecast
    from predictions.form import example_parameters
    from predictions.query import parse_query

    choices = load_choices()
    parameters = example_parameters(choices)
    if parameters:
        make_forecast(parse_query(parameters, choices))


def main() -> int:
    """Run every step; 1 where one fails, 2 where a setting is wrong, and one line says why."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "predictor_site.settings")
    try:
        django.setup()
        for title, step in (
            ("Migrating the database", lambda: call_command("migrate", verbosity=0)),
            ("Loading shipped data", load_shipped_data),
            ("Comparing settings with the catalogue", check_automatic_machines),
            ("Computing the first forecast", compute_first_forecast),
            ("Collecting static files", collect_static_files),
        ):
            started = time.perf_counter()
            print(f"{title} ...", flush=True)
            step()
            print(f"  done in {time.perf_counter() - started:.1f} s", flush=True)
    except ImproperlyConfigured as error:
        print(f"script/setup: {error}", file=sys.stderr)
        return 2
    except (CommandError, DatabaseError) as error:
        print(f"script/setup: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
