"""Single convolution layers timed by others: DeepBench, random layers and 3x3 layers.

Each reader takes the folder of public data sets and returns ``LayerTimings``; nothing of them is
stored in the project. What each data set times differs, so every entry keeps its source.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarking.specs import Precision
from regression.layer_features import FloatArray, LayerTable

DEEPBENCH, RANDOM_LAYERS, CONV3X3, ITERATIONS = 0, 1, 2, 3
"""Sources; the last stands for layers whose times were inferred from whole iterations."""

_DEEPBENCH_DEVICES = {
    "1080Ti": "gtx-1080-ti",
    "M40": "m40",
    "P100": "p100-pcie-16gb",
    "T4": "t4",
    "TitanX": "gtx-titan-x",
    "TitanX_Pascal": "titan-x-pascal",
    "TitanXp": "titan-xp",
    "V100": "v100-sxm2-16gb",
}
_DEEPBENCH_PRECISIONS = {
    "fp32": Precision.FP32,
    "fp16in-mixed": Precision.AMP,
    "pseudo-fp16": Precision.AMP,
}
_RANDOM_LAYER_FILES = {
    "1080TI": "gtx-1080-ti",
    "K40": "k40",
    "K80": "k80",
    "M60": "m60",
    "P100": "p100-pcie-16gb",
    "QUADROP2000": "quadro-p2000",
    "V100": "v100-sxm2-16gb",
}
_SESSION_CALL_MS = 0.15
"""Floor of a TensorFlow 1 session call: the smallest random layers take 0.14 to 0.24."""

_SHORTEST_MS = 0.02
"""What is left of a random layer after the session call is never taken as shorter."""

_SMALLEST_MULTIPLY_ADDS = 1e7
"""Smaller random layers time the session call. Chosen by work: by time it would bias them."""


@dataclass(frozen=True, slots=True)
class LayerTimings:
    """Timed passes on one device in one precision, from one source; arrays are equally long.

    ``weights`` counts each entry relative to others of its source; ``None`` is 1 for all.
    """

    device: str
    precision: Precision
    source: int
    layers: LayerTable
    passes: NDArray[np.int64]
    milliseconds: FloatArray
    weights: FloatArray | None = None

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> LayerTimings:
        """The chosen entries, by mask or by index."""
        return LayerTimings(
            self.device,
            self.precision,
            self.source,
            self.layers.take(chosen),
            self.passes[chosen],
            self.milliseconds[chosen],
            None if self.weights is None else self.weights[chosen],
        )


def read_layer_timings(
    folder: Path, random_layers: int, conv3x3_layers: int, seed: int
) -> list[LayerTimings]:
    """All of DeepBench, and at most so many layers a device of the others, drawn with ``seed``."""
    generator = np.random.default_rng(seed)
    conv3x3 = read_conv3x3(folder / "conv3x3_forward" / "layers.csv.gz")
    return [
        *read_deepbench(folder / "deepbench" / "conv_train.csv"),
        *read_random_layers(folder / "random_conv_layers", random_layers, generator),
        *(
            each.take(np.sort(generator.permutation(len(each.milliseconds))[:conv3x3_layers]))
            for each in conv3x3
        ),
    ]


def read_deepbench(path: Path) -> list[LayerTimings]:
    """Forward, backward data and backward filter of DeepBench's training layers.

    Where a sheet lacks the kernel size, the same row of the V100 sheet has it.
    """
    sheets: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            sheets.setdefault((row["gpu"], row["precision"]), []).append(row)
    reference = sheets[("V100", "fp32")]
    timings = []
    for (gpu, precision), rows in sheets.items():
        if len(rows) != len(reference):
            raise ValueError(f"{path}: {gpu} {precision} has {len(rows)} rows")
        kernels = [
            (float(row["R"] or known["R"]), float(row["S"] or known["S"]))
            for row, known in zip(rows, reference, strict=True)
        ]
        entries = [
            _layer_row(
                batch=float(row["N"]),
                channels=(float(row["C"]), float(row["K"])),
                extent=(float(row["H"]), float(row["W"])),
                kernel=kernel,
                stride=(float(row["stride_h"]), float(row["stride_w"])),
                padding=(float(row["pad_h"]), float(row["pad_w"])),
            )
            for row, kernel in zip(rows, kernels, strict=True)
        ]
        for code, column in enumerate(("fwd_ms", "bwd_data_ms", "bwd_weights_ms")):
            kept = [i for i, row in enumerate(rows) if row[column] and float(row[column]) > 0]
            timings.append(
                LayerTimings(
                    _DEEPBENCH_DEVICES[gpu],
                    _DEEPBENCH_PRECISIONS[precision],
                    DEEPBENCH,
                    _table([entries[i] for i in kept]),
                    np.full(len(kept), code),
                    np.array([float(rows[i][column]) for i in kept]),
                )
            )
    return timings


def read_random_layers(
    folder: Path, limit: int, generator: np.random.Generator
) -> list[LayerTimings]:
    """Forward-only random layers, less the session call they are timed around.

    Rows with an optimizer also update the input as a variable and are left out.
    """
    timings = []
    for name, device in sorted(_RANDOM_LAYER_FILES.items()):
        with gzip.open(folder / f"{name}.csv.gz", "rt", newline="") as stream:
            rows = [
                row for row in csv.DictReader(stream) if row["optimizer_name"] == "None(fwd only)"
            ]
        entries = []
        for row in rows:
            kernel, extent = float(row["kernelsize"]), float(row["matsize"])
            # TensorFlow's SAME padding keeps ceil(extent / stride); VALID pads nothing.
            padding = (kernel - 1) / 2 if row["padding"] == "1" else 0.0
            entries.append(
                _layer_row(
                    batch=float(row["batchsize"]),
                    channels=(float(row["channels_in"]), float(row["channels_out"])),
                    extent=(extent, extent),
                    kernel=(kernel, kernel),
                    stride=(float(row["strides"]), float(row["strides"])),
                    padding=(padding, padding),
                )
            )
        times = np.array([float(row["timeUsed_median"]) - _SESSION_CALL_MS for row in rows])
        table = _table(entries)
        large = np.flatnonzero(table.multiply_adds > _SMALLEST_MULTIPLY_ADDS)
        chosen = np.sort(generator.permutation(large)[:limit])
        timings.append(
            LayerTimings(
                device,
                Precision.FP32,
                RANDOM_LAYERS,
                table.take(chosen),
                np.zeros(len(chosen), dtype=np.int64),
                np.maximum(times[chosen], _SHORTEST_MS),
            )
        )
    return timings


def read_conv3x3(path: Path) -> list[LayerTimings]:
    """Forward passes of 3x3 layers with cuDNN 8.9 on five devices, TF32 off."""
    by_device: dict[str, list[Mapping[str, str]]] = {}
    with gzip.open(path, "rt", newline="") as stream:
        for row in csv.DictReader(stream):
            by_device.setdefault(row["device"], []).append(row)
    return [
        LayerTimings(
            device,
            Precision.FP32,
            CONV3X3,
            _table(
                [
                    _layer_row(
                        batch=float(row["batch_size"]),
                        channels=(float(row["in_channels"]), float(row["out_channels"])),
                        extent=(float(row["size"]), float(row["size"])),
                        kernel=(float(row["kernel"]), float(row["kernel"])),
                        stride=(float(row["stride"]), float(row["stride"])),
                        padding=(float(row["padding"]), float(row["padding"])),
                    )
                    for row in rows
                ]
            ),
            np.zeros(len(rows), dtype=np.int64),
            np.array([float(row["forward_ms"]) for row in rows]),
        )
        for device, rows in sorted(by_device.items())
    ]


def _layer_row(
    batch: float,
    channels: tuple[float, float],
    extent: tuple[float, float],
    kernel: tuple[float, float],
    stride: tuple[float, float],
    padding: tuple[float, float],
) -> tuple[float, ...]:
    out_height, out_width = (
        (extent[axis] + 2 * padding[axis] - kernel[axis]) // stride[axis] + 1 for axis in (0, 1)
    )
    return (
        batch,
        channels[0],
        *extent,
        channels[1],
        *kernel,
        (stride[0] * stride[1]) ** 0.5,
        out_height,
        out_width,
        1.0,
    )


def _table(rows: Sequence[Iterable[float]]) -> LayerTable:
    columns = len(fields(LayerTable))
    return LayerTable(*np.array([tuple(row) for row in rows], dtype=float).reshape(-1, columns).T)
