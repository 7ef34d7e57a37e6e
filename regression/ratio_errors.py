"""How far off the ratio of two batch sizes is, of one CNN on one device.

Both forecasts rest on the same coefficients and layers, so that much of their error cancels: which
of two batch sizes is faster is known better than how long either takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np

from regression.intervals import NOMINAL

FEWEST_PAIRS = 20


def ratio_errors(curves: Iterable[Mapping[int, float]]) -> list[dict[str, float]]:
    """The log error that 80 % of ratios stay below, by doublings between the batch sizes.

    Parameters
    ----------
    curves
        For each CNN on each device the signed log errors by batch size.

    Returns
    -------
    list of dict
        ``doublings`` (whole, at least 1), ``pairs``, and ``p80`` in natural-log units, ascending;
        distances with fewer than 20 pairs are left out.
    """
    pairs: dict[int, list[float]] = {}
    for errors in curves:
        for small, large in combinations(sorted(errors), 2):
            doublings = max(1, round(math.log2(large / small)))
            pairs.setdefault(doublings, []).append(abs(errors[large] - errors[small]))
    return [
        {
            "doublings": doublings,
            "pairs": len(found),
            "p80": round(float(np.quantile(found, NOMINAL)), 3),
        }
        for doublings, found in sorted(pairs.items())
        if len(found) >= FEWEST_PAIRS
    ]
