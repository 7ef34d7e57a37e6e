"""A whole training iteration on a device nobody measured with us, with its 80 % interval.

What is forecast: a current PyTorch, contiguous memory format, cuDNN heuristics, the batch already
on the device. The published iterations behind it were taken with several stacks; how far those
differ from each other is part of the interval, not of the value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from benchmarking.specs import DeviceKind, DeviceSpec, Optimizer, Precision, TracedNetwork
from regression.layer_estimator import LayerEstimator
from regression.layer_features import FloatArray, Rates, concatenate_layers
from regression.smooth_maximum import smooth_maximum
from regression.step_calibration import (
    CONVOLUTION_COLUMNS,
    NARROW_COLUMNS,
    TERMS,
    Collection,
    StepCalibration,
    StepContext,
    chip_of,
    forecast_host,
    sum_parts,
)
from regression.step_rows import IterationWork, iteration_terms
from regression.step_terms import NetworkTerms, network_terms

LARGEST_BATCH_SIZE = 1024
_GRID = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], dtype=float)
"""Layers are estimated at these batch sizes; between them their sums follow a power law."""

_MOST_REMEMBERED = 4096
"""Networks times places whose layers are kept, about 1 KB each, before all are forgotten."""

_TYPICAL_BATCH_SIZE = 64.0

NARROW_SHARE = 0.15
"""Share of depthwise and grouped convolutions from which a network counts as narrow."""

LAYERS_FILE, CALIBRATION_FILE = "layers.ubj", "estimator.json"


class EstimatorFormatError(ValueError):
    """The stored estimator is missing or of another version."""


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """Forecast of one network on one device; arrays follow the batch sizes asked for.

    ``low_ms`` to ``high_ms`` is the 80 % interval. ``remainder_ms`` is the device's time beside
    convolutions, so that ``convolution_ms + remainder_ms`` is what the device takes and
    ``host_ms`` what the host does; the iteration is their smooth maximum. ``basis`` says what the
    device's estimate rests on; ``indicative`` marks automatic mixed precision on a chip without
    any published timing in it.
    """

    batch_sizes: NDArray[np.int64]
    iteration_ms: FloatArray
    low_ms: FloatArray
    high_ms: FloatArray
    convolution_ms: FloatArray
    remainder_ms: FloatArray
    host_ms: FloatArray
    bound_by: tuple[Literal["device", "host"], ...]
    basis: Literal["iterations", "layers", "specification"]
    indicative: bool
    note: str


class StepEstimator:
    """Estimates iterations from a layer estimator and a calibration of the other terms.

    Parameters
    ----------
    layers
        Fitted layer estimator.
    calibration
        Coefficients and factors of the terms.
    source
        What layer predictions stand for (a code of ``public_data.layer_timings``).
    chips_with_iterations, chips_with_layers
        Chip and precision (``"7.0/80 fp32"``) that published timings cover.
    half_widths
        Half width of the 80 % interval in the logarithm, by cell (see ``interval_cell``).
    model_version
        Short text that forecasts carry.
    """

    def __init__(
        self,
        layers: LayerEstimator,
        calibration: StepCalibration,
        source: int,
        chips_with_iterations: Iterable[str],
        chips_with_layers: Iterable[str],
        half_widths: Mapping[str, float],
        model_version: str,
    ) -> None:
        self.layers = layers
        self.calibration = calibration
        self.source = source
        self.chips_with_iterations = frozenset(chips_with_iterations)
        self.chips_with_layers = frozenset(chips_with_layers)
        self.half_widths = dict(half_widths)
        self.model_version = model_version
        self._terms: dict[TracedNetwork, NetworkTerms] = {}
        self._convolutions: dict[tuple[TracedNetwork, DeviceSpec, Precision], FloatArray] = {}

    def estimate(
        self,
        network: TracedNetwork,
        device: DeviceSpec,
        batch_sizes: NDArray[np.int64] | Sequence[int],
        precision: Precision,
        optimizer: Optimizer = Optimizer.SGD,
    ) -> StepEstimate:
        """Forecast iterations at the batch sizes (1 to 1024, any order).

        Raises
        ------
        ValueError
            For a CPU, a device without peak rates, a precision the device does not have, or a
            batch size out of range.
        """
        sizes = np.asarray(batch_sizes, dtype=np.int64)
        if sizes.size == 0 or sizes.min() < 1 or sizes.max() > LARGEST_BATCH_SIZE:
            raise ValueError(f"batch sizes are 1 to {LARGEST_BATCH_SIZE}")
        self.prepare(network, [(device, precision)])
        spent = self._term_ms(network, device, sizes.astype(float), precision, optimizer)
        device_ms, host_ms, beside_ms = sum_parts(spent)
        iteration = smooth_maximum(host_ms, device_ms) + beside_ms
        convolution = spent[:, CONVOLUTION_COLUMNS].sum(axis=1)
        basis, indicative = self.basis(device, precision)
        narrow = self._is_narrow(network, device, precision)
        half_width = self.half_widths[interval_cell(basis, precision, narrow)]
        return StepEstimate(
            batch_sizes=sizes,
            iteration_ms=iteration,
            low_ms=iteration * np.exp(-half_width),
            high_ms=iteration * np.exp(half_width),
            convolution_ms=convolution,
            remainder_ms=device_ms - convolution,
            host_ms=host_ms,
            bound_by=tuple("host" if h > d else "device" for h, d in zip(host_ms, device_ms)),
            basis=basis,
            indicative=indicative,
            note=_NOTES[basis] + (_INDICATIVE if indicative else ""),
        )

    def prepare(
        self, network: TracedNetwork, places: Sequence[tuple[DeviceSpec, Precision]]
    ) -> None:
        """Estimate the network's layers for several devices in one call, for later ``estimate``.

        Raises ``ValueError`` as ``estimate`` does.
        """
        missing = [
            place for place in dict.fromkeys(places) if (network, *place) not in self._convolutions
        ]
        for device, precision in missing:
            _check_covered(device, precision)
        if not missing:
            return
        if len(self._convolutions) > _MOST_REMEMBERED:
            self._convolutions.clear()
            self._terms.clear()
        terms = self._network_terms(network)
        layers = terms.layers.crossed_with(_GRID)
        codes = np.repeat(np.arange(3), len(layers))
        repeated = concatenate_layers([layers] * 3)
        milliseconds = self.layers.predict_places(missing, repeated, codes, self.source)
        for place, spent in zip(missing, milliseconds, strict=True):
            by_pass = spent.reshape(3, len(terms.layers), len(_GRID)).transpose(1, 2, 0)
            table = iteration_terms(
                place[0],
                terms,
                _GRID,
                place[1],
                by_pass,
                IterationWork.forecast(place[1], Optimizer.SGD),
            )
            self._convolutions[(network, *place)] = np.maximum.accumulate(
                table[:, CONVOLUTION_COLUMNS], axis=0
            )

    def basis(
        self, device: DeviceSpec, precision: Precision
    ) -> tuple[Literal["iterations", "layers", "specification"], bool]:
        """What an estimate rests on, and whether it is only indicative."""
        place = place_name(chip_of(device), precision)
        if place in self.chips_with_iterations:
            return "iterations", False
        if place in self.chips_with_layers:
            return "layers", precision is Precision.AMP
        return "specification", precision is Precision.AMP

    def _term_ms(
        self,
        network: TracedNetwork,
        device: DeviceSpec,
        batch_sizes: FloatArray,
        precision: Precision,
        optimizer: Optimizer,
    ) -> FloatArray:
        """Milliseconds of each term at each batch size, shape (batch sizes, terms)."""
        terms = self._network_terms(network)
        table = iteration_terms(
            device,
            terms,
            batch_sizes,
            precision,
            np.zeros((len(terms.layers), len(batch_sizes), 3)),
            IterationWork.forecast(precision, optimizer),
        )
        table[:, CONVOLUTION_COLUMNS] = _interpolate(
            self._convolutions[network, device, precision], batch_sizes
        )
        return table * self.calibration.coefficients(forecast_context(device, precision))

    def _is_narrow(self, network: TracedNetwork, device: DeviceSpec, precision: Precision) -> bool:
        """Decided once for a curve, so that its interval does not jump along it."""
        terms = self._network_terms(network)
        if not (terms.layers.groups > 1).any():
            return False
        typical = np.array([_TYPICAL_BATCH_SIZE])
        spent = self._term_ms(network, device, typical, precision, Optimizer.SGD)
        device_ms, _, _ = sum_parts(spent)
        return bool(spent[0, NARROW_COLUMNS].sum() > NARROW_SHARE * device_ms[0])

    def _network_terms(self, network: TracedNetwork) -> NetworkTerms:
        if network not in self._terms:
            self._terms[network] = network_terms(network)
        return self._terms[network]

    def save(self, folder: Path, record: Mapping[str, Any]) -> None:
        """Write the estimator as two files; ``record`` is kept beside it (hashes, versions)."""
        folder.mkdir(parents=True, exist_ok=True)
        self.layers.save(folder / LAYERS_FILE)
        content = {
            "model_version": self.model_version,
            "source": self.source,
            "coefficients": {k: round(v, 6) for k, v in sorted(self.calibration.values.items())},
            "chips_with_iterations": sorted(self.chips_with_iterations),
            "chips_with_layers": sorted(self.chips_with_layers),
            "half_widths": {k: round(v, 4) for k, v in sorted(self.half_widths.items())},
            "record": dict(record),
        }
        (folder / CALIBRATION_FILE).write_text(json.dumps(content, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read an estimator that ``save`` wrote.

        Raises ``EstimatorFormatError`` where a file is missing or damaged, or of a version that
        lacks what forecasts need: no forecast has to find that out.
        """
        try:
            content = json.loads((folder / CALIBRATION_FILE).read_text())
            _check_content(content)
            return cls(
                layers=LayerEstimator().load(folder / LAYERS_FILE),
                calibration=StepCalibration(content["coefficients"]),
                source=content["source"],
                chips_with_iterations=content["chips_with_iterations"],
                chips_with_layers=content["chips_with_layers"],
                half_widths=content["half_widths"],
                model_version=content["model_version"],
            )
        except (OSError, ValueError) as error:
            # XGBoost adds its stack to the message.
            reason = str(error).partition("\n")[0]
            raise EstimatorFormatError(f"{folder}: no usable estimator ({reason})") from error


def place_name(chip: str, precision: Precision) -> str:
    """Name of a chip in a precision, as ``StepEstimator`` lists what is covered."""
    return f"{chip} {precision.value}"


def interval_cell(basis: str, precision: Precision, narrow: bool) -> str:
    """Name of the group of left-out errors that an interval is taken from."""
    arithmetic = "amp" if precision is Precision.AMP else "full"
    return f"{basis} {arithmetic} {'narrow' if narrow else 'dense'}"


def forecast_context(device: DeviceSpec, precision: Precision) -> StepContext:
    """A current PyTorch on an average host."""
    chip = chip_of(device)
    return StepContext(chip, precision, Collection.TIMM, forecast_host(chip))


def _check_content(content: Any) -> None:
    """Raise ``ValueError`` unless everything is there that a forecast looks up."""
    if not isinstance(content, dict):
        raise ValueError("it holds no object")
    if absent := sorted(_CONTENT_TYPES.keys() - content.keys()):
        raise ValueError(f"it lacks {', '.join(absent)}")
    for name, kind in _CONTENT_TYPES.items():
        if not isinstance(content[name], kind):
            raise ValueError(f"{name} is not what it should be")
    contexts = [StepContext("", precision, Collection.TIMM, "") for precision in Precision]
    needed = {
        "coefficients": {context.coefficient(term) for context in contexts for term in TERMS},
        "half_widths": {
            interval_cell(basis, precision, narrow)
            for basis in _NOTES
            for precision in Precision
            for narrow in (False, True)
        },
    }
    for name, keys in needed.items():
        if lacking := sorted(keys - content[name].keys()):
            raise ValueError(f"{name} lack {', '.join(lacking)}")
        for key, value in content[name].items():
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(f"{name}: {key} is no finite number")


_CONTENT_TYPES: dict[str, type] = {
    "model_version": str,
    "source": int,
    "coefficients": dict,
    "chips_with_iterations": list,
    "chips_with_layers": list,
    "half_widths": dict,
}
_NOTES: dict[str, str] = {
    "iterations": "",
    "layers": "Single layers were timed on this GPU, whole iterations were not.",
    "specification": "No timings of this GPU in this precision are behind this: its data sheet is.",
}
_INDICATIVE = " Mixed precision on it is indicative only."


def _check_covered(device: DeviceSpec, precision: Precision) -> None:
    if device.kind is not DeviceKind.CUDA:
        raise ValueError(f"{device.slug}: only GPUs are estimated from their specification")
    Rates.of(device, precision)


def _interpolate(values: FloatArray, batch_sizes: FloatArray) -> FloatArray:
    """Columns given on the grid, as powers of the batch size in between."""
    logarithms = np.log(np.maximum(values, 1e-12))
    return np.exp(
        np.stack(
            [np.interp(np.log(batch_sizes), np.log(_GRID), column) for column in logarithms.T],
            axis=1,
        )
    )
