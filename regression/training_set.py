"""What a machine's timings teach: features, iteration times and the runs behind them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarking.specs import DeviceKind, TracedNetwork
from regression.convolution import LayerTimes
from regression.features import COLUMNS, FeatureTable, FloatArray

METHOD_VERSION = 1
"""Raise it with every change of the method that changes forecasts."""


@dataclass(frozen=True)
class TrainingSet:
    """Rows of one machine and stack, ordered by network, image size and batch size.

    ``iteration_ms`` is of shape (rows,); ``runs_ms`` holds each row's time by process.
    ``mega_multiply_add_ms`` is the device's rate in busy convolutions. ``traced`` are the
    networks, in the order of the rows, and ``layer_times`` all timings of their layers.
    """

    kind: DeviceKind
    table: FeatureTable
    iteration_ms: FloatArray
    runs_ms: tuple[Mapping[str, float], ...]
    mega_multiply_add_ms: float | None
    traced: tuple[TracedNetwork, ...]
    layer_times: LayerTimes

    @property
    def networks(self) -> int:
        """Number of different CNNs."""
        return len(set(self.table.architectures))

    def data_hash(self) -> str:
        """SHA-256 of everything that a fit depends on, to six significant digits."""
        digest = hashlib.sha256(f"{METHOD_VERSION} {self.kind} {COLUMNS}".encode())
        for position, values in enumerate(self.table.values):
            numbers = [self.table.batch_sizes[position], self.iteration_ms[position], *values]
            numbers += sorted(self.runs_ms[position].values())
            digest.update(
                f"{self.table.architectures[position]} {self.table.families[position]} "
                f"{' '.join(f'{number:.6g}' for number in numbers)}\n".encode()
            )
        layers = {use.layer.key for network in self.traced for use in network.convolutions}
        for (key, size, each), milliseconds in sorted(self.layer_times.items()):
            if key in layers:
                digest.update(f"{key} {size} {each} {milliseconds:.6g}\n".encode())
        return digest.hexdigest()

    @property
    def version(self) -> str:
        """Method and data, short enough to show."""
        return f"{METHOD_VERSION}-{self.data_hash()[:10]}"
