"""The front door: settings, addresses and the Celery application."""

from predictor_site.celery import app as celery_app

__all__ = ["celery_app"]
