"""XGBoost's trees as bytes, in its own format and without any code in them."""

from __future__ import annotations

import xgboost as xgb


def booster_to_bytes(booster: xgb.Booster) -> bytes:
    """The trees as ``save_model`` writes them in UBJ."""
    return bytes(booster.save_raw(raw_format="ubj"))


def booster_from_bytes(content: bytes) -> xgb.Booster:
    """The trees of :func:`booster_to_bytes`; raises ``XGBoostError`` where they are damaged.

    One thread: a forecast is over before a second one has started.
    """
    booster = xgb.Booster({"nthread": 1})
    booster.load_model(bytearray(content))
    return booster
