"""How far estimates are off, on networks and on devices that were left out.

Each published iteration is predicted three times, by estimators that never saw

- its network (on any device): ``networks``;
- any iteration on its chip, though single layers of that chip: ``iterations``;
- its chip at all: ``devices``.

It is predicted as a forecast would be, that is for PyTorch on an average host, so the errors hold
what software stacks differ by. Only figures of groups come out, no rows of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarking.specs import DeviceSpec, Optimizer, Precision
from regression.estimator_baselines import baseline_errors
from regression.layer_features import FloatArray
from regression.public_data.examples import is_toy
from regression.public_data.layer_timings import LayerTimings
from regression.ratio_errors import ratio_errors
from regression.step_calibration import NARROW_COLUMNS, Collection, StepContext, chip_of
from regression.step_estimator import (
    NARROW_SHARE,
    forecast_context,
    interval_cell,
    place_name,
)
from regression.step_rows import IterationWork
from regression.step_training import FittedSteps, StepExample, example_terms, fit_steps

FOLDS = 8
COVERAGE = 0.8
STACK_SIGMA = 0.12
"""Standard deviation in the logarithm between stacks on one GPU (published ones: 5 to 30 %)."""
_NORMAL_QUANTILE = 1.2816
"""Of 80 % two-sided."""
_SMALLEST_CELL = 25
_SMALLEST_HALF_WIDTH = 0.1

SPLITS = {"networks": "iterations", "iterations": "layers", "devices": "specification"}
"""What is left out, and the basis of the forecasts whose errors it stands for."""

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Errors of one split: logarithms of predicted over published, NaN where not predicted."""

    split: str
    errors: FloatArray
    narrow: NDArray[np.bool_]


def as_forecast(example: StepExample) -> StepExample:
    """The example as the product would be asked for it, on a host and stack it does not know."""
    precision = example.context.precision
    return replace(
        example,
        context=forecast_context(example.device, precision),
        work=IterationWork.forecast(precision, Optimizer.SGD),
    )


def leave_out(
    layer_timings: Sequence[LayerTimings],
    examples: Sequence[StepExample],
    devices: Mapping[str, DeviceSpec],
    seed: int,
    report: Report = lambda line: None,
    fit: Callable[..., FittedSteps] = fit_steps,
) -> list[LeftOut]:
    """Predict every example under each split, with estimators that ``fit`` makes."""
    groups = _network_folds(examples, seed)
    results = [_empty(split, examples) for split in SPLITS]
    by_split = dict(zip(SPLITS, results, strict=True))
    for fold in range(FOLDS):
        held = np.flatnonzero(groups == fold)
        fitted = fit(layer_timings, _others(examples, held), devices)
        _predict_into(by_split["networks"], examples, held, fitted)
        report(f"networks left out: {fold + 1} of {FOLDS}")
    chips = sorted({example.context.chip for example in examples})
    for chip in chips:
        held = np.array([i for i, each in enumerate(examples) if each.context.chip == chip])
        others = _others(examples, held)
        foreign = [t for t in layer_timings if chip_of(devices[t.device]) != chip]
        if len(foreign) < len(layer_timings):
            fitted = fit(layer_timings, others, devices)
            _predict_into(by_split["iterations"], examples, held, fitted)
        fitted = fit(foreign, others, devices)
        _predict_into(by_split["devices"], examples, held, fitted)
        report(f"devices left out: {chip}")
    return results


def _empty(split: str, examples: Sequence[StepExample]) -> LeftOut:
    return LeftOut(split, np.full(len(examples), np.nan), np.zeros(len(examples), dtype=bool))


def _others(examples: Sequence[StepExample], held: NDArray[np.int64]) -> list[StepExample]:
    left_out = set(held.tolist())
    return [example for i, example in enumerate(examples) if i not in left_out]


def _network_folds(examples: Sequence[StepExample], seed: int) -> NDArray[np.int64]:
    names = sorted({example.network for example in examples})
    order = np.random.default_rng(seed).permutation(len(names)) % FOLDS
    fold = dict(zip(names, order.tolist(), strict=True))
    return np.array([fold[example.network] for example in examples])


def _predict_into(
    result: LeftOut,
    examples: Sequence[StepExample],
    held: NDArray[np.int64],
    fitted: FittedSteps,
) -> None:
    asked = [as_forecast(examples[i]) for i in held]
    contexts = [example.context for example in asked]
    terms, _ = example_terms(asked, fitted.layers, fitted.source)
    published = np.array([example.milliseconds for example in asked])
    result.errors[held] = np.log(fitted.calibration.predict(terms, contexts) / published)
    coefficients = np.array([fitted.calibration.coefficients(context) for context in contexts])
    device, _, _ = fitted.calibration.parts_ms(terms, contexts)
    narrow = (terms * coefficients)[:, NARROW_COLUMNS].sum(axis=1)
    result.narrow[held] = narrow > NARROW_SHARE * device


def counts_for_intervals(example: StepExample) -> bool:
    """Whether an example's error says something about a forecast of a network people train.

    Not PROFET's toys, nor TensorFlow's depthwise convolutions, which take 13 to 28 times their
    bytes over the bandwidth and are not what PyTorch runs.
    """
    tensorflow_depthwise = (
        example.context.collection is Collection.PROFET and example.terms.depthwise.any()
    )
    return not (is_toy(example.network) or tensorflow_depthwise)


def interval_half_widths(
    results: Sequence[LeftOut],
    examples: Sequence[StepExample],
    without: Callable[[str, StepExample], bool] = lambda split, example: False,
) -> dict[str, float]:
    """Half widths of the 80 % interval by cell, leaving out the examples that ``without`` names.

    The quantile is taken of absolute log errors, each network and chip counting equally whatever
    its number of rows; stacks that are not in the data are added in quadrature.
    """
    widths: dict[str, float] = {}
    counted = np.array([counts_for_intervals(example) for example in examples])
    amp = np.array([example.context.precision is Precision.AMP for example in examples])
    for result in results:
        kept = counted & np.isfinite(result.errors)
        kept &= ~np.array([without(result.split, example) for example in examples])
        basis = SPLITS[result.split]
        everything = _weighted_quantile(result.errors, kept, examples)
        for is_amp, precision in ((False, Precision.FP32), (True, Precision.AMP)):
            for narrow in (False, True):
                member = kept & (amp == is_amp) & (result.narrow == narrow)
                quantile = (
                    _weighted_quantile(result.errors, member, examples)
                    if member.sum() >= _SMALLEST_CELL
                    else everything * (1.25 if is_amp or narrow else 1.0)
                )
                width = float(np.hypot(quantile, _NORMAL_QUANTILE * STACK_SIGMA))
                widths[interval_cell(basis, precision, narrow)] = max(width, _SMALLEST_HALF_WIDTH)
    _order_by_basis(widths)
    return widths


def _order_by_basis(widths: dict[str, float]) -> None:
    """Less knowledge never makes an interval narrower."""
    for precision in (Precision.FP32, Precision.AMP):
        for narrow in (False, True):
            smallest = 0.0
            for basis in SPLITS.values():
                cell = interval_cell(basis, precision, narrow)
                smallest = widths[cell] = max(widths[cell], smallest)


def _weighted_quantile(
    errors: FloatArray, member: NDArray[np.bool_], examples: Sequence[StepExample]
) -> float:
    rows = np.flatnonzero(member).tolist()
    if not rows:
        return 0.5
    keys = [(examples[i].network, examples[i].context.chip) for i in rows]
    sizes: dict[tuple[str, str], int] = {}
    for key in keys:
        sizes[key] = sizes.get(key, 0) + 1
    weights = np.array([sizes[key] ** -0.5 for key in keys])
    absolute = np.abs(errors[rows])
    order = np.argsort(absolute)
    cumulated = np.cumsum(weights[order]) / weights.sum()
    position = min(int(np.searchsorted(cumulated, COVERAGE)), len(rows) - 1)
    return float(absolute[order][position])


def covered_places(
    layer_timings: Sequence[LayerTimings],
    examples: Sequence[StepExample],
    devices: Mapping[str, DeviceSpec],
) -> tuple[list[str], list[str]]:
    """Chips with precision that iterations, and that layers, cover."""
    iterations = {place_name(each.context.chip, each.context.precision) for each in examples}
    layers = {place_name(chip_of(devices[t.device]), t.precision) for t in layer_timings}
    return sorted(iterations), sorted(layers)


def summarize(results: Sequence[LeftOut], examples: Sequence[StepExample]) -> dict[str, Any]:
    """Figures per split, device, precision and family, with baselines and coverage."""
    counted = np.array([counts_for_intervals(example) for example in examples])
    baselines = baseline_errors(examples)
    splits = []
    for result in results:
        inside, widths = _score_intervals(result, results, examples)
        rows = []
        everyone = [("all", "all")] * len(examples)
        for kind, labels in (
            ("all", everyone),
            ("device", [(e.device.slug, e.context.precision.value) for e in examples]),
            ("family", [(e.family, "all") for e in examples]),
        ):
            for label in sorted(set(labels)):
                chosen = np.array([each == label for each in labels]) & np.isfinite(result.errors)
                if kind != "family" or label[0] != "small":
                    chosen &= counted
                if not chosen.any():
                    continue
                rows.append(
                    {
                        "group": kind,
                        "name": label[0],
                        "precision": label[1],
                        "cnns": len({examples[i].network for i in np.flatnonzero(chosen).tolist()}),
                        "points": int(chosen.sum()),
                        **_figures(result.errors[chosen]),
                        "coverage": round(float(inside[chosen].mean()), 3),
                        "median_relative_width": round(float(np.median(widths[chosen])), 3),
                        "baselines": {
                            name: _figures(errors[chosen & np.isfinite(errors)])
                            for name, errors in baselines.items()
                            if (chosen & np.isfinite(errors)).any()
                        },
                    }
                )
        ratios = ratio_errors(_curves(result, examples, counted))
        splits.append({"left_out": result.split, "rows": rows, "ratios": ratios})
    return {"nominal_coverage": COVERAGE, "splits": splits}


def _curves(
    result: LeftOut, examples: Sequence[StepExample], counted: NDArray[np.bool_]
) -> list[dict[int, float]]:
    """Errors by batch size of what is alike but for the batch size."""
    curves: dict[tuple[str, int, StepContext, IterationWork], dict[int, float]] = {}
    for i in np.flatnonzero(counted & np.isfinite(result.errors)).tolist():
        example = examples[i]
        # The same terms are the same network at the same image size.
        key = (example.network, id(example.terms), example.context, example.work)
        curves.setdefault(key, {})[example.batch_size] = float(result.errors[i])
    return list(curves.values())


def _figures(errors: FloatArray) -> dict[str, float]:
    """Absolute relative errors and their bias, in percent."""
    percent = 100.0 * np.abs(np.expm1(errors))
    return {
        "mape": round(float(percent.mean()), 1),
        "median": round(float(np.median(percent)), 1),
        "p90": round(float(np.quantile(percent, 0.9)), 1),
        "bias": round(float(100.0 * np.expm1(np.median(errors))), 1),
    }


def _score_intervals(
    result: LeftOut, results: Sequence[LeftOut], examples: Sequence[StepExample]
) -> tuple[NDArray[np.bool_], FloatArray]:
    """Whether each interval holds, with its relative width; own network and chip not counted."""
    inside = np.zeros(len(examples), dtype=bool)
    widths = np.zeros(len(examples))
    cache: dict[str, dict[str, float]] = {}
    for i, example in enumerate(examples):
        own = example.network if result.split == "networks" else example.context.chip
        if own not in cache:
            cache[own] = interval_half_widths(
                results,
                examples,
                lambda split, each, own=own: own in (each.network, each.context.chip),  # type: ignore[misc]
            )
        cell = interval_cell(
            SPLITS[result.split], example.context.precision, bool(result.narrow[i])
        )
        half_width = cache[own][cell]
        inside[i] = bool(np.abs(result.errors[i]) <= half_width)
        widths[i] = 2.0 * np.sinh(half_width)
    return inside, widths


def format_table(report: Mapping[str, Any]) -> str:
    """The stored report as text, one line a group."""
    lines = []
    for split in report["splits"]:
        lines.append(f"Left out: {split['left_out']}")
        lines.append(
            f"  {'group':<28}{'CNNs':>5}{'points':>7}{'median %':>9}{'p90 %':>7}{'bias %':>7}"
            f"{'coverage':>9}{'width':>7}  baselines, median %"
        )
        for row in split["rows"]:
            name = row["name"] if row["precision"] == "all" else f"{row['name']} {row['precision']}"
            baselines = ", ".join(
                f"{label.replace('_', ' ')} {figures['median']:.0f}"
                for label, figures in row["baselines"].items()
            )
            lines.append(
                f"  {name:<28}{row['cnns']:>5}{row['points']:>7}{row['median']:>9.1f}"
                f"{row['p90']:>7.1f}{row['bias']:>7.1f}{row['coverage']:>9.2f}"
                f"{row['median_relative_width']:>7.2f}  {baselines}"
            )
        if ratios := split.get("ratios"):
            listed = ", ".join(
                f"{100 * math.expm1(row['p80']):.0f} % at {row['doublings']}" for row in ratios
            )
            lines.append(f"  80 % of ratios of two batch sizes, by doublings, within: {listed}")
        lines.append("")
    return "\n".join(lines)
