"""Stored evaluations as pages and commands read them, without the libraries that computed them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.conf import settings

ESTIMATOR_FOLDER = Path(settings.BASE_DIR) / "fixtures" / "estimator"
"""The estimator that is shipped, and its evaluation."""

EVALUATION_FILE = "evaluation.json"
_KEYS = {"model_version", "nominal_coverage", "splits"}


class DamagedReportError(ValueError):
    """The stored report on estimates cannot be read; the message is one sentence."""


def stored_estimator_report(folder: Path | None = None) -> dict[str, Any] | None:
    """What ``evaluate_estimates`` prints of published timings; ``None`` where nothing is stored.

    Keys are ``evaluated_on`` (ISO date), ``model_version``, ``nominal_coverage`` and ``splits``:
    what was left out, with rows of figures by group, as
    :func:`regression.estimator_evaluation.summarize` makes them. ``folder`` is the shipped one
    unless given. Raises ``DamagedReportError``.
    """
    path = (folder or ESTIMATOR_FOLDER) / EVALUATION_FILE
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DamagedReportError(
            f"{path.name} cannot be read: run train_estimator again"
        ) from error
    if not isinstance(report, dict) or not report.keys() >= _KEYS:
        raise DamagedReportError(
            f"{path.name} must hold {', '.join(sorted(_KEYS))}: run train_estimator again"
        )
    return report
