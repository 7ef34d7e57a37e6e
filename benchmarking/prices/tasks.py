"""The daily refresh of prices; ``BEAT_SCHEDULE`` is its entry for Celery beat.

Nothing here imports models, so that the app's configuration may read the schedule.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import shared_task
from celery.schedules import crontab

logger = logging.getLogger(__name__)

_NAME = "benchmarking.prices.tasks.refresh_prices_daily"
# Many pages of a price list per region take longer than a task may by default.
_LIMIT_SECONDS = 900

BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "refresh-prices": {
        "task": _NAME,
        "schedule": crontab(hour=4, minute=17),
        "options": {"queue": "maintenance"},
    }
}


@shared_task(name=_NAME, soft_time_limit=_LIMIT_SECONDS, time_limit=_LIMIT_SECONDS + 60)
def refresh_prices_daily() -> None:
    """Refresh all prices of AWS, or say in one line why that cannot be."""
    from benchmarking.prices.aws import AwsPriceSource
    from benchmarking.prices.refresh import refresh_prices
    from benchmarking.prices.source import MissingCredentialsError

    try:
        report = refresh_prices(AwsPriceSource())
    except MissingCredentialsError as error:
        logger.info("Prices stay as they are. %s", error)
        return
    for line in (*report.retired, *report.failed):
        logger.warning("%s", line)
    for line in report.offered_again:
        logger.info("%s", line)
    logger.info("Prices: %d added, %d unchanged", len(report.added), report.unchanged)
