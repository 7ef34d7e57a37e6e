"""Stored evaluations as pages read them, without the libraries that computed them."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings


def stored_estimator_report() -> dict[str, Any] | None:
    """What ``evaluate_estimates`` prints of published timings; ``None`` where nothing is stored.

    Keys are ``evaluated_on`` (ISO date), ``model_version``, ``nominal_coverage`` and ``splits``:
    what was left out, with rows of figures by group, as
    :func:`regression.estimator_evaluation.summarize` makes them.
    """
    path = settings.BASE_DIR / "fixtures" / "estimator" / "evaluation.json"
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return report
