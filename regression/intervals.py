"""Intervals that a forecast earns: quantiles of errors that were made on other networks.

Errors are natural logarithms of measured over predicted, from models that had not seen the
network. Conformal prediction with one distribution of scores per network (pooled as in Dunn,
Wasserman and Ramdas 2023, "Distribution-free prediction sets for two-layer hierarchical
models"): every network weighs the same however many batch sizes it has, and one unseen network
of infinite error is added, so that few networks give wide intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

import numpy as np
from scipy.special import betaincinv

NOMINAL = 0.8

SMALLEST_STEP = 0.4
"""Doublings of the batch size below which an extrapolation is taken to be no better."""

ErrorsByNetwork = Mapping[str, Sequence[float]]


class ErrorKind(StrEnum):
    """What was known when an error was made.

    ``run``: the time itself, from all processes; how far single ones are from it.
    ``regressed``: convolution timings alone. ``anchored``: these, and whole iterations at other
    batch sizes of the network. ``interpolated``: both neighbours in batch size.
    ``extrapolated``: smaller batch sizes; these errors are per doubling. ``layers``: timings of
    other layers; the errors are those of the sum of convolutions.
    """

    RUN = "run"
    REGRESSED = "regressed"
    ANCHORED = "anchored"
    INTERPOLATED = "interpolated"
    EXTRAPOLATED = "extrapolated"
    LAYERS = "layers"


def error_quantile(errors: ErrorsByNetwork, leave_out: str | None = None) -> float:
    """The absolute error that ``NOMINAL`` of a new network's points stay below.

    Parameters
    ----------
    errors
        Signed log errors by network; networks without any are ignored.
    leave_out
        The network that the quantile is for, whose own errors must not count.

    Returns
    -------
    float
        A half width in log units; infinite if there are too few networks to say.
    """
    used = [
        np.abs(np.asarray(values, dtype=float))
        for network, values in errors.items()
        if network != leave_out and len(values)
    ]
    if not used:
        return math.inf
    values = np.concatenate(used)
    weights = np.concatenate([np.full(len(each), 1 / len(each)) for each in used])
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / (len(used) + 1)
    position = int(np.searchsorted(reached, NOMINAL - 1e-12))
    return float(values[order][position]) if position < len(values) else math.inf


WIDTHS_WITH_FEW_NETWORKS: Mapping[ErrorKind, float] = {
    ErrorKind.RUN: math.log(1.05),
    ErrorKind.REGRESSED: math.log(1.5),
    ErrorKind.ANCHORED: math.log(1.25),
    ErrorKind.INTERPOLATED: math.log(1.15),
    ErrorKind.EXTRAPOLATED: math.log(1.25),
    ErrorKind.LAYERS: math.log(1.5),
}
"""Least half widths where too few networks were measured for a quantile."""


@dataclass(frozen=True)
class IntervalModel:
    """The errors that a machine's forecasts made on networks they had not seen, by kind."""

    errors: Mapping[ErrorKind, ErrorsByNetwork] = field(default_factory=dict)
    _widths: dict[tuple[ErrorKind, str | None], float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def half_width(
        self, kind: ErrorKind, network: str | None = None, doublings: float = 0.0
    ) -> float:
        """Half width of the interval in log units, from networks other than ``network``.

        ``doublings`` is the distance of an extrapolation: log2 of the ratio of batch sizes.
        Never below the variability from run to run.
        """
        floor = self._width(ErrorKind.RUN, network)
        if kind is ErrorKind.RUN:
            return floor
        width = self._width(kind, network)
        if kind is ErrorKind.EXTRAPOLATED:
            width *= max(SMALLEST_STEP, doublings)
        return max(floor, width)

    def to_json(self) -> dict[str, dict[str, list[float]]]:
        """Errors by kind and network, rounded to a hundredth of a percent."""
        return {
            kind.value: {
                network: [round(float(error), 4) for error in values]
                for network, values in networks.items()
            }
            for kind, networks in self.errors.items()
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The model of ``to_json``."""
        return cls({ErrorKind(kind): networks for kind, networks in stored.items()})

    def _width(self, kind: ErrorKind, network: str | None) -> float:
        known = self._widths.get((kind, network))
        if known is None:
            known = self._widths[kind, network] = self._find_width(kind, network)
        return known

    def _find_width(self, kind: ErrorKind, network: str | None) -> float:
        errors = self.errors.get(kind, {})
        quantile = error_quantile(errors, leave_out=network)
        if math.isfinite(quantile):
            return quantile
        others = [values for name, values in errors.items() if name != network and len(values)]
        largest = max((float(np.max(np.abs(values))) for values in others), default=0.0)
        return max(WIDTHS_WITH_FEW_NETWORKS[kind], largest)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often intervals of nominal level ``NOMINAL`` held the truth on unseen networks.

    ``coverage`` is the mean over networks of the share of their points covered; ``low`` and
    ``high`` bound it at 95 % with networks as the trials (Clopper and Pearson 1934);
    ``mean_width_pct`` is the whole interval in percent of the forecast.
    """

    coverage: float
    low: float
    high: float
    networks: int
    mean_width_pct: float


def measure_coverage(
    intervals: IntervalModel, kind: ErrorKind = ErrorKind.REGRESSED
) -> Coverage | None:
    """Judge each network's errors by those of the others; ``None`` without two networks.

    For ``EXTRAPOLATED`` this is the coverage and width of one doubling.
    """
    errors = intervals.errors.get(kind, {})
    networks = [network for network, values in errors.items() if len(values)]
    if len(networks) < 2:
        return None
    shares, widths = [], []
    for network in networks:
        half_width = intervals.half_width(kind, network, doublings=1.0)
        shares.append(float(np.mean(np.abs(errors[network]) <= half_width)))
        widths.append(100 * (math.exp(half_width) - math.exp(-half_width)))
    low, high = binomial_interval(sum(shares), len(shares))
    return Coverage(float(np.mean(shares)), low, high, len(networks), float(np.mean(widths)))


def binomial_interval(successes: float, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper-Pearson interval of a share; ``successes`` may be a sum of shares."""
    tail = (1 - level) / 2
    low = betaincinv(successes, trials - successes + 1, tail) if successes > 0 else 0.0
    high = betaincinv(successes + 1, trials - successes, 1 - tail) if successes < trials else 1.0
    return float(low), float(high)
