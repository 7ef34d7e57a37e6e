"""Whole training iterations timed by others: PROFET, torchvision at batch 12, timm under AMP.

What each of them times differs (see ``StepTiming``); nothing of them is stored in the project.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarking.specs import Precision

_PROFET_DEVICES = {
    "K80 (1 GK210)": "k80",
    "M60 (1 GM204)": "m60",
    "T4": "t4",
    "V100-SXM2-16GB": "v100-sxm2-16gb",
}
_TORCHVISION_DEVICES = {
    "A100-SXM4-40GB": "a100-sxm4-40gb",
    "GeForce GTX 1080 Ti": "gtx-1080-ti",
    "GeForce RTX 2080 Ti": "rtx-2080-ti",
    "TITAN RTX": "titan-rtx",
    "TITAN V": "titan-v",
    "TITAN Xp": "titan-xp",
}
_DUPLICATED_SOURCE = "new_results/"
"""This folder of the RTX 2080 Ti repeats another one, digit for digit."""


@dataclass(frozen=True, order=True, slots=True)
class NetworkKey:
    """A network as one collection defines it: ``keras``, ``torchvision`` or ``timm``."""

    collection: str
    name: str
    image_size: int


@dataclass(frozen=True, slots=True)
class StepTiming:
    """One published iteration time and what it contains beside the network's own work.

    ``stack`` names the software and host it was taken with; timings of two are never averaged.
    """

    network: NetworkKey
    device: str
    precision: Precision
    stack: str
    batch_size: int
    milliseconds: float
    has_copy: bool
    has_optimizer: bool


def read_step_timings(folder: Path) -> list[StepTiming]:
    """All whole iterations on one GPU, in a fixed order."""
    return [
        *_read_profet(folder / "profet" / "step_times.csv"),
        *_read_torchvision(folder / "torchvision_batch12" / "train_step_times.csv"),
        *_read_timm(folder / "timm_rtx3090_amp" / "pt112_nchw.csv"),
    ]


def _read_profet(path: Path) -> Iterator[StepTiming]:
    runs: dict[tuple[str, str, int, int], list[float]] = {}
    for row in _rows(path):
        key = (row["gpu"], row["model"], int(row["image_size"]), int(row["batch_size"]))
        runs.setdefault(key, []).append(float(row["step_ms"]))
    for (gpu, model, image_size, batch_size), times in sorted(runs.items()):
        yield StepTiming(
            NetworkKey("keras", model, image_size),
            _PROFET_DEVICES[gpu],
            Precision.FP32,
            "profet",
            batch_size,
            statistics.median(times),
            has_copy=True,
            has_optimizer=True,
        )


def _read_torchvision(path: Path) -> Iterator[StepTiming]:
    for row in _rows(path):
        if row["n_gpus"] != "1" or row["precision"] == "fp64":
            continue
        if row["source"].startswith(_DUPLICATED_SOURCE):
            continue
        device = _TORCHVISION_DEVICES[row["gpu"]]
        precision = Precision.AMP
        if row["precision"] == "fp32":
            precision = Precision.TF32 if device.startswith("a100") else Precision.FP32
        yield StepTiming(
            NetworkKey("torchvision", row["model"], int(row["image_size"])),
            device,
            precision,
            f"torchvision-{_run_of(row['source'])}",
            int(row["batch_per_gpu"]),
            float(row["median_ms"]),
            has_copy=True,
            has_optimizer=False,
        )


def _run_of(source: str) -> str:
    """Folder and repeat of a benchmark run, the same for all its precisions."""
    folder, name = source.split("/")[-2:]
    repeat = name[name.find("(") :].split(".")[0] if "(" in name else ""
    return folder + repeat


def _read_timm(path: Path) -> Iterator[StepTiming]:
    for row in _rows(path):
        yield StepTiming(
            NetworkKey("timm", row["model"], int(row["train_img_size"])),
            "rtx-3090",
            Precision.AMP,
            "timm",
            int(row["train_batch_size"]),
            float(row["train_step_time"]),
            has_copy=False,
            has_optimizer=True,
        )


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="") as stream:
        yield from csv.DictReader(stream)
