"""A web process that is ready for its first visitor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from django.conf import settings

SCRIPT = """
import gc, sys
import predictor_site.wsgi
print("predictions.views.forecast" in sys.modules, "xgboost" in sys.modules)
print(gc.get_freeze_count() > 10 * len(gc.get_objects()))
"""


def test_what_requests_need_is_loaded_and_no_longer_walked_over(tmp_path: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "DJANGO_SETTINGS_MODULE": "predictor_site.settings",
        "EPOCHCAST_VAR_DIR": str(tmp_path),
        "SECRET_KEY": "only-for-tests",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        cwd=settings.BASE_DIR,
        env=environment,
    )
    assert done.stdout.split() == ["True", "True", "True"]
