"""The token that opens ``/metrics``."""

from __future__ import annotations

import secrets
from pathlib import Path

from django.conf import settings

from benchmarking.kept_values import kept_value

TOKEN_FILE = "metrics_token"  # noqa: S105


def metrics_token() -> str:
    """The setting ``METRICS_TOKEN``, else one that this installation makes once and keeps."""
    path = Path(settings.VAR_DIR) / TOKEN_FILE
    return settings.METRICS_TOKEN or kept_value(path, lambda: secrets.token_urlsafe(32))
