"""What decides how long a convolution layer takes on a device, as numbers.

A convolution pass is a matrix product in disguise (Chetlur et al. 2014, "cuDNN: efficient
primitives for deep learning"): M x N x K for each of the three passes. Its time is bounded by
the roofline (Williams, Waterman & Patterson 2009); how far above it a layer lands depends on how
its tiles fill the multiprocessors. The features are ratios wherever possible, so that a model
learnt on some devices still means something on another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from benchmarking.specs import ConvolutionSpec, DeviceSpec, Pass, Precision

FloatArray = NDArray[np.float64]

PASS_CODES: dict[Pass, int] = {
    Pass.FORWARD: 0,
    Pass.BACKWARD_DATA: 1,
    Pass.BACKWARD_FILTER: 2,
}

LAUNCH_MS = 0.005
"""A kernel's launch and tail in milliseconds, below which no layer falls."""

_TILE_M, _TILE_N = 128, 64

FEATURE_NAMES: tuple[str, ...] = (
    "log_intensity_over_ridge",
    "log_m",
    "log_n",
    "log_k",
    "tile_fill_m",
    "tile_fill_n",
    "log_waves",
    "last_wave_fill",
    "log_bytes_over_l2",
    "log_multiply_adds",
    "kernel_elements",
    "kernel_aspect",
    "stride",
    "log_in_channels",
    "log_out_channels",
    "in_channels_modulo_8",
    "out_channels_modulo_8",
    "log_out_extent",
    "winograd",
    "pass",
    "log_device_ridge",
    "log_multiprocessors",
    "compute_capability",
    "log_peak_per_multiprocessor",
    "log_watts_per_tflops",
    "log_l2",
    "arithmetic",
    "source",
)


@dataclass(frozen=True, slots=True)
class LayerTable:
    """Layers with batch sizes as equally long arrays of floats, one entry per layer and batch."""

    batch: FloatArray
    in_channels: FloatArray
    in_height: FloatArray
    in_width: FloatArray
    out_channels: FloatArray
    kernel_height: FloatArray
    kernel_width: FloatArray
    stride: FloatArray
    out_height: FloatArray
    out_width: FloatArray
    groups: FloatArray

    @classmethod
    def from_specs(
        cls, layers: Sequence[ConvolutionSpec], batch_sizes: Sequence[int] | NDArray[np.int64]
    ) -> LayerTable:
        """One entry per layer and its batch size (equally long)."""
        if len(layers) != len(batch_sizes):
            raise ValueError(f"{len(layers)} layers but {len(batch_sizes)} batch sizes")
        shapes = np.array(
            [
                (
                    layer.in_channels,
                    layer.in_height,
                    layer.in_width,
                    layer.out_channels,
                    layer.kernel_height,
                    layer.kernel_width,
                    (layer.stride_height * layer.stride_width) ** 0.5,
                    layer.out_height,
                    layer.out_width,
                    layer.groups,
                )
                for layer in layers
            ],
            dtype=float,
        ).reshape(-1, 10)
        return cls(np.asarray(batch_sizes, dtype=float), *shapes.T)

    def __len__(self) -> int:
        return len(self.batch)

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> LayerTable:
        """The chosen entries, by mask or by index."""
        return LayerTable(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def crossed_with(self, batch_sizes: FloatArray) -> LayerTable:
        """Every layer of the table at every batch size: entry ``i * len(batch_sizes) + j``."""
        columns = [np.repeat(getattr(self, field.name), len(batch_sizes)) for field in fields(self)]
        columns[0] = np.tile(batch_sizes, len(self))
        return LayerTable(*columns)

    @property
    def multiply_adds(self) -> FloatArray:
        """Multiply-adds of one pass over the batch."""
        return (
            self.batch
            * self.out_height
            * self.out_width
            * self.out_channels
            * (self.in_channels / self.groups)
            * self.kernel_height
            * self.kernel_width
        )

    @property
    def elements(self) -> FloatArray:
        """Elements of input, output and weights together: what each pass reads or writes once."""
        return (
            self.batch * self.in_channels * self.in_height * self.in_width
            + self.batch * self.out_channels * self.out_height * self.out_width
            + self.out_channels
            * (self.in_channels / self.groups)
            * self.kernel_height
            * self.kernel_width
        )


def concatenate_layers(tables: Sequence[LayerTable]) -> LayerTable:
    """The entries of all tables, in order."""
    return LayerTable(
        *(
            np.concatenate([getattr(table, field.name) for table in tables])
            for field in fields(LayerTable)
        )
    )


def distinct_layers(table: LayerTable) -> tuple[LayerTable, NDArray[np.int64]]:
    """The different entries of a table, and for each entry which of them it is."""
    rows = np.stack([getattr(table, field.name) for field in fields(LayerTable)], axis=1)
    distinct, members = np.unique(rows, axis=0, return_inverse=True)
    return LayerTable(*distinct.T), members.reshape(-1)


@dataclass(frozen=True, slots=True)
class Rates:
    """What a device reaches at most in one precision."""

    peak_tflops: float
    bandwidth_gb_s: float
    element_bytes: float
    arithmetic: int
    """0 CUDA cores, 1 TF32 and 2 half precision on tensor cores, 3 half storage only."""

    @classmethod
    def of(cls, device: DeviceSpec, precision: Precision) -> Rates:
        """Rates of convolutions; raises ``ValueError`` when the device's are unknown."""
        if device.fp32_tflops is None or device.bandwidth_gb_s is None:
            raise ValueError(
                f"{device.slug}: an estimate needs its FP32 TFLOP/s and memory bandwidth"
            )
        if precision is Precision.AMP:
            has_tensor_cores = (device.compute_capability or 0.0) >= 7.0
            if has_tensor_cores and device.fp16_tflops:
                return cls(device.fp16_tflops, device.bandwidth_gb_s, 2.0, 2)
            return cls(device.fp32_tflops, device.bandwidth_gb_s, 2.0, 3)
        if precision is Precision.TF32:
            if device.tf32_tflops is None:
                raise ValueError(
                    f"{device.slug} has no tf32; it has "
                    + ", ".join(choice.value for choice in device.precisions)
                )
            return cls(device.tf32_tflops, device.bandwidth_gb_s, 4.0, 1)
        return cls(device.fp32_tflops, device.bandwidth_gb_s, 4.0, 0)

    def roofline_ms(self, layers: LayerTable) -> FloatArray:
        """Milliseconds of arithmetic or of memory traffic at the peak rates, whichever is more."""
        compute = 2e-9 * layers.multiply_adds / self.peak_tflops
        memory = 1e-6 * layers.elements * self.element_bytes / self.bandwidth_gb_s
        return np.asarray(np.maximum(compute, memory))


def matrix_product(
    layers: LayerTable, passes: NDArray[np.int64]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """M, N and K of each entry's pass as a matrix product, per group."""
    pixels_out = layers.batch * layers.out_height * layers.out_width
    pixels_in = layers.batch * layers.in_height * layers.in_width
    window = layers.kernel_height * layers.kernel_width
    fan_in = layers.in_channels / layers.groups
    fan_out = layers.out_channels / layers.groups
    m = np.choose(passes, [pixels_out, pixels_in, fan_out])
    n = np.choose(passes, [fan_out, fan_in, fan_in * window])
    k = np.choose(passes, [fan_in * window, fan_out * window, pixels_out])
    return m, n, k


def layer_features(
    device: DeviceSpec,
    layers: LayerTable,
    passes: NDArray[np.int64],
    precision: Precision,
    source: int,
) -> FloatArray:
    """The columns ``FEATURE_NAMES`` for each entry, shape (entries, features)."""
    rates = Rates.of(device, precision)
    m, n, k = matrix_product(layers, passes)
    tiles = np.ceil(m / _TILE_M) * np.ceil(n / _TILE_N)
    multiprocessors = float(device.multiprocessors or 1)
    waves = tiles / multiprocessors
    data_bytes = layers.elements * rates.element_bytes
    ridge = 1000.0 * rates.peak_tflops / rates.bandwidth_gb_s
    intensity = 2.0 * layers.multiply_adds / data_bytes
    winograd = (
        (layers.kernel_height == 3)
        & (layers.kernel_width == 3)
        & (layers.stride == 1)
        & (layers.groups == 1)
    )
    l2_mib = device.l2_mib or 4.0
    columns = (
        np.log(intensity / ridge),
        np.log(m),
        np.log(n),
        np.log(k),
        m / (np.ceil(m / _TILE_M) * _TILE_M),
        n / (np.ceil(n / _TILE_N) * _TILE_N),
        np.log(waves),
        waves / np.ceil(waves),
        np.log(data_bytes / (l2_mib * 2**20)),
        np.log(layers.multiply_adds),
        layers.kernel_height * layers.kernel_width,
        layers.kernel_width / layers.kernel_height,
        layers.stride,
        np.log(layers.in_channels / layers.groups),
        np.log(layers.out_channels / layers.groups),
        layers.in_channels % 8,
        layers.out_channels % 8,
        0.5 * np.log(layers.out_height * layers.out_width),
        winograd,
        passes,
        np.log(ridge),
        np.log(multiprocessors),
        device.compute_capability or 0.0,
        np.log(rates.peak_tflops / multiprocessors),
        np.log((device.tdp_watts or 250.0) / rates.peak_tflops),
        np.log(l2_mib),
        rates.arithmetic,
        source,
    )
    features = np.empty((len(layers), len(columns)))
    for position, column in enumerate(columns):
        features[:, position] = column
    return features
