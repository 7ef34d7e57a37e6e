"""From the folder of public data sets to the estimator's artefact and its report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarking.specs import DeviceSpec
from regression.estimator_evaluation import (
    COVERAGE,
    FOLDS,
    STACK_SIGMA,
    covered_places,
    interval_half_widths,
    leave_out,
    summarize,
)
from regression.layer_estimator import LayerEstimator
from regression.public_data.devices import load_device_specs
from regression.public_data.examples import build_examples
from regression.public_data.layer_timings import LayerTimings, read_layer_timings
from regression.public_data.networks import (
    read_traces,
    trace_published_networks,
    write_traces,
)
from regression.public_data.step_times import read_step_timings
from regression.step_calibration import StepCalibration, forecast_host
from regression.step_estimator import StepEstimator
from regression.step_training import StepExample, fit_steps
from regression.stored_reports import EVALUATION_FILE

SEED = 20
RANDOM_LAYERS_PER_DEVICE = 2500
CONV3X3_LAYERS_PER_DEVICE = 2000

_DATA_FILES = (
    "conv3x3_forward/layers.csv.gz",
    "deepbench/conv_train.csv",
    "profet/step_times.csv",
    "random_conv_layers/*.csv.gz",
    "timm_rtx3090_amp/pt112_nchw.csv",
    "torchvision_batch12/train_step_times.csv",
)

Report = Callable[[str], None]


class PublicDataError(ValueError):
    """The folder of public data sets is not what it should be."""


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Everything that training reads."""

    layer_timings: list[LayerTimings]
    examples: list[StepExample]
    devices: dict[str, DeviceSpec]
    hashes: dict[str, str]


def read_training_data(
    folder: Path, traces: Path | None = None, report: Report = lambda line: None
) -> TrainingData:
    """Read the data sets and trace the networks they are about.

    With ``traces``, traces are read from that file if it exists and else written there.
    Raises ``PublicDataError`` when a data set is missing or malformed.
    """
    hashes = _hash_files(folder)
    devices = load_device_specs()
    try:
        layer_timings = read_layer_timings(
            folder, RANDOM_LAYERS_PER_DEVICE, CONV3X3_LAYERS_PER_DEVICE, SEED
        )
        timings = read_step_timings(folder)
    except (KeyError, ValueError) as error:
        raise PublicDataError(f"{folder}: a data set is malformed: {error!r}") from error
    keys = [timing.network for timing in timings]
    if traces is not None and traces.exists():
        networks = read_traces(traces, keys)
    else:
        networks = trace_published_networks(keys, report)
        if traces is not None:
            write_traces(traces, networks)
    examples = build_examples(timings, networks, devices)
    report(f"{len(examples)} iterations of {len({e.network for e in examples})} networks")
    return TrainingData(layer_timings, examples, devices, hashes)


def train_estimator(
    data: TrainingData, report: Report = lambda line: None
) -> tuple[StepEstimator, dict[str, Any], dict[str, Any]]:
    """Evaluate on what is left out, then fit on everything.

    Returns the estimator, the record of what it is made of, and the evaluation.
    """
    results = leave_out(data.layer_timings, data.examples, data.devices, SEED, report)
    fitted = fit_steps(data.layer_timings, data.examples, data.devices)
    iterations, layers = covered_places(data.layer_timings, data.examples, data.devices)
    estimator = StepEstimator(
        layers=fitted.layers,
        calibration=_without_hosts(fitted.calibration),
        source=fitted.source,
        chips_with_iterations=iterations,
        chips_with_layers=layers,
        half_widths=interval_half_widths(results, data.examples),
        model_version=model_version(fitted.layers, fitted.calibration),
    )
    record = {
        "data_sha256": data.hashes,
        "versions": {name: version(name) for name in ("numpy", "xgboost-cpu")},
        "seed": SEED,
        "folds": FOLDS,
        "interval": {"coverage": COVERAGE, "stack_sigma": STACK_SIGMA},
        "iterations": len(data.examples),
        "networks": len({example.network for example in data.examples}),
        "layer_timings": sum(len(each.milliseconds) for each in data.layer_timings),
    }
    evaluation = {
        "model_version": estimator.model_version,
        **summarize(results, data.examples),
    }
    return estimator, record, evaluation


def model_version(layers: LayerEstimator, calibration: StepCalibration) -> str:
    """A name that changes with anything the estimator learnt."""
    learnt = hashlib.sha256(bytes(layers.booster_.save_raw("ubj")))
    for name, value in sorted(_without_hosts(calibration).values.items()):
        learnt.update(f"{name} {value:.6f}".encode())
    return f"estimator-{learnt.hexdigest()[:8]}"


def write_evaluation(folder: Path, evaluation: Mapping[str, Any]) -> None:
    """Store a report beside the estimator, with the day that it was made on."""
    dated = {"evaluated_on": datetime.now(UTC).date().isoformat(), **evaluation}
    (folder / EVALUATION_FILE).write_text(json.dumps(dated, indent=1) + "\n")


def _without_hosts(calibration: StepCalibration) -> StepCalibration:
    """Forecasts are for an average host: the publications' own hosts are no use to them."""
    return StepCalibration(
        {
            name: value
            for name, value in calibration.values.items()
            if not name.startswith("host ") or name.startswith(f"host {forecast_host('')}")
        }
    )


def _hash_files(folder: Path) -> dict[str, str]:
    if not folder.is_dir():
        raise PublicDataError(f"{folder} is not a folder")
    hashes = {}
    for pattern in _DATA_FILES:
        found = sorted(folder.glob(pattern))
        if not found:
            raise PublicDataError(f"{folder} lacks {pattern}; it should hold the public data sets")
        for path in found:
            hashes[path.relative_to(folder).as_posix()] = hashlib.sha256(
                path.read_bytes()
            ).hexdigest()
    return hashes
