"""What a web process does once, before its first visitor."""

from __future__ import annotations

import gc
from importlib import import_module

from django.urls import get_resolver


def warm_up() -> None:
    """Load what requests need, and tell the garbage collector that all of it stays.

    Otherwise the first forecast without a stored curve would wait a second for XGBoost, and every
    few large comparisons 50 to 100 ms for a walk over everything that was ever imported.
    """
    _ = get_resolver().url_patterns
    import_module("xgboost")
    gc.collect()
    gc.freeze()
    # A large comparison makes some 100,000 objects that die with it.
    gc.set_threshold(10_000, 10, 10)
