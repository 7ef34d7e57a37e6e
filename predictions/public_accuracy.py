"""How estimates did on timings that others published, as the accuracy page shows it.

Only figures of groups are stored, no rows of the data.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from benchmarking.models import Device
from regression.stored_reports import DamagedReportError, stored_estimator_report

logger = logging.getLogger(__name__)

SHORT_OF_NOMINAL_PCT = 15
"""Intervals that hold so much less than they should are named as too narrow."""


@dataclass(frozen=True, slots=True)
class _Words:
    title: str
    short_title: str
    explanation: str
    standing_for: str
    needs: str


_SPLIT_WORDS = {
    "networks": _Words(
        "A new CNN on a GPU that others timed",
        "CNN left out",
        "iterations of other CNNs on that GPU are known",
        "your CNN on a GPU with published iterations",
        "the CNN's trace, and other CNNs' iterations on that GPU",
    ),
    "iterations": _Words(
        "A GPU of which only single layers are published",
        "iterations left out",
        "no whole iteration of that chip is known, only single layers",
        "GPUs of which only layer timings are published",
        "the CNN's trace, and timings of single layers on that GPU",
    ),
    "devices": _Words(
        "A GPU known by its specification alone",
        "GPU left out",
        "nothing that is published of that chip is known",
        "GPUs that nobody published",
        "the CNN's trace, and the GPU's specification",
    ),
}
_BASELINE_TITLES = {
    "flops_over_peak": (
        "operations over peak rate",
        "the specification; scaled by other CNNs' median",
    ),
    "linear_in_batch": (
        "a line in batch size",
        "the same CNN on the same GPU, timed at its smallest and largest batch size",
    ),
    "device_ratio": (
        "another GPU's time, scaled",
        "the same CNN on another GPU, and three more CNNs timed on both",
    ),
}


@dataclass(frozen=True, slots=True)
class Figures:
    """Errors of a group in percent; positive bias where forecasts are longer than published.

    ``coverage_pct`` is the share inside the interval; ``width_pct`` that interval's median width
    in percent of the forecast; ``baselines`` medians of simpler ways, in the order of
    :attr:`PublicAccuracy.baseline_titles`, ``None`` where one had nothing to go by.
    """

    name: str
    precision: str
    cnns: int
    points: int
    mape: float
    median: float
    p90: float
    bias: float
    coverage_pct: float
    width_pct: float
    baselines: tuple[float | None, ...]

    @property
    def bias_text(self) -> str:
        """With its sign."""
        return _signed(self.bias)

    @classmethod
    def of(cls, row: Mapping[str, Any], names: Mapping[str, str]) -> Self:
        """The figures of a row of the report; ``names`` are devices' names by slug."""
        return cls(
            name=names.get(row["name"], row["name"]),
            precision="" if row["precision"] == "all" else row["precision"].upper(),
            cnns=row["cnns"],
            points=row["points"],
            mape=row["mape"],
            median=row["median"],
            p90=row["p90"],
            bias=row["bias"],
            coverage_pct=100 * row["coverage"],
            width_pct=100 * row["median_relative_width"],
            baselines=tuple(
                row["baselines"].get(name, {}).get("median") for name in _BASELINE_TITLES
            ),
        )


@dataclass(frozen=True, slots=True)
class Split:
    """What was left out, with figures over all points, by device and by family."""

    title: str
    short_title: str
    explanation: str
    standing_for: str
    needs: str
    everything: Figures
    devices: tuple[Figures, ...]
    families: tuple[Figures, ...]

    @property
    def groups(self) -> list[tuple[str, tuple[Figures, ...]]]:
        """All figures, under a heading each."""
        return [
            ("All", (self.everything,)),
            ("GPUs and precisions", self.devices),
            ("Families of CNNs", self.families),
        ]


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """A device or a family with its figures under each split, ``None`` where it has none."""

    name: str
    precision: str
    figures: tuple[Figures | None, ...]

    @property
    def cnns(self) -> int:
        """The most CNNs of any split."""
        return max(each.cnns for each in self.figures if each)

    @property
    def points(self) -> int:
        """The most points of any split."""
        return max(each.points for each in self.figures if each)


@dataclass(frozen=True, slots=True)
class Way:
    """A simpler way of predicting, what it needs, and its errors in percent."""

    title: str
    needs: str
    median: float
    p90: float
    bias: float

    @property
    def bias_text(self) -> str:
        """With its sign."""
        return _signed(self.bias)


@dataclass(frozen=True, slots=True)
class PublicAccuracy:
    """The stored report; ``evaluated_on`` is an ISO date, or empty where it is not stored."""

    model_version: str
    evaluated_on: str
    nominal_pct: float
    splits: tuple[Split, ...]
    devices: tuple[ComparedLine, ...]
    families: tuple[ComparedLine, ...]
    baselines: tuple[Way, ...]

    @property
    def least_coverage_pct(self) -> float:
        """Below this an interval counts as too narrow."""
        return self.nominal_pct - SHORT_OF_NOMINAL_PCT

    @property
    def too_narrow(self) -> list[tuple[Split, Figures]]:
        """Devices whose intervals hold too little, with what was left out."""
        return [
            (split, figures)
            for split in self.splits
            for figures in split.devices
            if figures.coverage_pct < self.least_coverage_pct
        ]

    @property
    def baseline_titles(self) -> list[str]:
        """In the order of :attr:`Figures.baselines`."""
        return [title for title, _ in _BASELINE_TITLES.values()]


def public_accuracy() -> PublicAccuracy | None:
    """The stored report in words; ``None`` where there is none that can be read."""
    try:
        report = stored_estimator_report()
    except DamagedReportError as error:
        logger.error("the accuracy page leaves out estimates: %s", error)
        return None
    if report is None:
        return None
    names = dict(Device.objects.values_list("slug", "name"))
    splits = tuple(_split(split, names) for split in report["splits"])
    everything = next(row for row in report["splits"][0]["rows"] if row["group"] == "all")
    return PublicAccuracy(
        model_version=report["model_version"],
        evaluated_on=report.get("evaluated_on", ""),
        nominal_pct=100 * report["nominal_coverage"],
        splits=splits,
        devices=_compare([split.devices for split in splits]),
        families=_compare([split.families for split in splits]),
        baselines=tuple(
            Way(title, needs, *(everything["baselines"][name][key] for key in _WAY_FIGURES))
            for name, (title, needs) in _BASELINE_TITLES.items()
            if name in everything["baselines"]
        ),
    )


_WAY_FIGURES = ("median", "p90", "bias")


def _split(split: Mapping[str, Any], names: Mapping[str, str]) -> Split:
    groups: dict[str, list[Figures]] = {"all": [], "device": [], "family": []}
    for row in split["rows"]:
        groups[row["group"]].append(Figures.of(row, names if row["group"] == "device" else {}))
    words = _SPLIT_WORDS[split["left_out"]]
    return Split(
        words.title,
        words.short_title,
        words.explanation,
        words.standing_for,
        words.needs,
        everything=groups["all"][0],
        devices=tuple(groups["device"]),
        families=tuple(groups["family"]),
    )


def _compare(groups: Sequence[Sequence[Figures]]) -> tuple[ComparedLine, ...]:
    by_group = [{(each.name, each.precision): each for each in figures} for figures in groups]
    keys = dict.fromkeys(key for figures in by_group for key in figures)
    return tuple(
        ComparedLine(*key, tuple(figures.get(key) for figures in by_group)) for key in sorted(keys)
    )


def _signed(percent: float) -> str:
    return f"{percent:+.1f}"
