"""The vocabulary of measurement as frozen dataclasses, free of Django and of torch.

Database models turn into these by ``to_spec()``; every numerical module of the
floors above works on them, so it can be tested without a database.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

FLOAT32_BYTES = 4


class Pass(StrEnum):
    """One of the three computations of a convolution layer in a training iteration."""

    FORWARD = "forward"
    BACKWARD_DATA = "backward_data"
    BACKWARD_FILTER = "backward_filter"


class Phase(StrEnum):
    """The part of a training iteration in which an operation runs."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"


class Precision(StrEnum):
    """Arithmetic of the convolutions and matrix products of an iteration."""

    FP32 = "fp32"
    TF32 = "tf32"
    AMP = "amp"


class Optimizer(StrEnum):
    """Update rule: ``sgd`` has momentum 0.9 and weight decay; ``adamw`` keeps two moments."""

    SGD = "sgd"
    ADAMW = "adamw"


class Engine(StrEnum):
    """Program that takes the timings; timings of two engines are never added up."""

    TORCH = "torch"
    DNNMARK = "dnnmark"


class DeviceKind(StrEnum):
    """What a device is to the framework."""

    CPU = "cpu"
    CUDA = "cuda"


@dataclass(frozen=True, order=True, slots=True)
class ConvolutionSpec:
    """One unique two-dimensional convolution configuration, independent of batch size.

    All sizes are in elements (pixels and channels); ``groups`` divides both channel counts.
    """

    in_channels: int
    in_height: int
    in_width: int
    out_channels: int
    kernel_height: int
    kernel_width: int
    stride_height: int = 1
    stride_width: int = 1
    padding_height: int = 0
    padding_width: int = 0
    dilation_height: int = 1
    dilation_width: int = 1
    groups: int = 1
    bias: bool = False

    @property
    def out_height(self) -> int:
        """Height of the output in pixels."""
        return _output_extent(
            self.in_height,
            self.kernel_height,
            self.stride_height,
            self.padding_height,
            self.dilation_height,
        )

    @property
    def out_width(self) -> int:
        """Width of the output in pixels."""
        return _output_extent(
            self.in_width,
            self.kernel_width,
            self.stride_width,
            self.padding_width,
            self.dilation_width,
        )

    @property
    def weight_elements(self) -> int:
        """Elements of the filter tensor, without the bias."""
        return (
            self.out_channels
            * (self.in_channels // self.groups)
            * self.kernel_height
            * self.kernel_width
        )

    @property
    def input_elements(self) -> int:
        """Elements of one example's input."""
        return self.in_channels * self.in_height * self.in_width

    @property
    def output_elements(self) -> int:
        """Elements of one example's output."""
        return self.out_channels * self.out_height * self.out_width

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of one pass over one example; the same for all three passes."""
        return self.out_height * self.out_width * self.weight_elements

    @property
    def key(self) -> str:
        """A unique name such as ``3x224x224-64k7x7s2x2p3x3d1x1g1``; a bias adds a ``b``."""
        return (
            f"{self.in_channels}x{self.in_height}x{self.in_width}-{self.out_channels}"
            f"k{self.kernel_height}x{self.kernel_width}s{self.stride_height}x{self.stride_width}"
            f"p{self.padding_height}x{self.padding_width}d{self.dilation_height}x{self.dilation_width}"
            f"g{self.groups}{'b' if self.bias else ''}"
        )


def _output_extent(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


@dataclass(frozen=True, slots=True)
class ConvolutionUse:
    """A convolution layer as one network uses it.

    ``count`` is how often an iteration runs it; ``needs_input_gradient`` is false where
    backward data is left out, as for a network's first layer.
    """

    layer: ConvolutionSpec
    count: int
    needs_input_gradient: bool = True

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The passes that one training iteration runs for this layer."""
        if self.needs_input_gradient:
            return (Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_FILTER)
        return (Pass.FORWARD, Pass.BACKWARD_FILTER)


@dataclass(frozen=True, slots=True)
class OperationSpec:
    """All calls of one ATen operation in one phase of an iteration, added up.

    ``name`` is the overload packet, for example ``native_batch_norm`` or ``convolution``.
    ``bytes_per_example * batch + bytes_fixed`` are read and written in FP32; views count none.
    ``multiply_adds_per_example`` is nonzero for convolutions and matrix products only.
    """

    name: str
    phase: Phase
    calls: int
    bytes_per_example: float
    bytes_fixed: float
    multiply_adds_per_example: float = 0.0


@dataclass(frozen=True, slots=True)
class TracedNetwork:
    """A CNN at one image size: everything a forecast needs to know about it.

    ``saved_bytes_*`` are the bytes that autograd keeps for the backward pass, each storage
    counted once and parameters left out, in FP32 and under automatic mixed precision.
    ``minimum_batch_size`` is 2 where BatchNorm would see a single value per channel.
    ``note`` is empty or one sentence, for example why an auxiliary head was left out.
    """

    slug: str
    family: str
    image_size: int
    parameters: int
    parameter_tensors: int
    multiply_adds: int
    saved_bytes_per_example: float
    saved_bytes_fixed: float
    saved_bytes_amp_per_example: float
    saved_bytes_amp_fixed: float
    convolutions: tuple[ConvolutionUse, ...]
    operations: tuple[OperationSpec, ...]
    minimum_batch_size: int = 1
    note: str = ""


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A GPU model or CPU as its data sheet describes it; ``None`` where unknown.

    Rates are dense peaks in TFLOP/s (two per multiply-add), bandwidth in GB/s (1e9 bytes),
    ``usable_memory_mib`` is what the framework can allocate, ``multiprocessors`` are SMs.
    ``tdp_watts`` is the board's power limit, halved for a board of two dies.
    """

    slug: str
    kind: DeviceKind
    usable_memory_mib: float | None
    fp32_tflops: float | None
    bandwidth_gb_s: float | None
    multiprocessors: int | None = None
    clock_mhz: float | None = None
    compute_capability: float | None = None
    tf32_tflops: float | None = None
    fp16_tflops: float | None = None
    l2_mib: float | None = None
    tdp_watts: float | None = None

    @property
    def precisions(self) -> tuple[Precision, ...]:
        """The precisions that the device has, slowest first."""
        if self.kind is DeviceKind.CPU:
            return (Precision.FP32,)
        if self.tf32_tflops is None:
            return (Precision.FP32, Precision.AMP)
        return (Precision.FP32, Precision.TF32, Precision.AMP)

    @property
    def default_precision(self) -> Precision:
        """What PyTorch computes convolutions in when nobody asks: TF32 on Ampere and later."""
        return Precision.TF32 if Precision.TF32 in self.precisions else Precision.FP32


@dataclass(frozen=True, slots=True)
class StackSpec:
    """The software that a timing was taken with; timings of two stacks are never mixed."""

    engine: Engine
    framework_version: str
    precision: Precision
    cuda_version: str = ""
    cudnn_version: str = ""
    memory_format: str = "contiguous"
    cudnn_benchmark: bool = False
    threads: int = 1

    @property
    def label(self) -> str:
        """A short text for tables, for example ``torch 2.14.1 fp32 1 thread``.

        An empty version is that of a machine that nobody has looked at yet.
        """
        if not self.framework_version:
            return f"{self.engine} of unknown version · {self.precision}"
        parts = [f"{self.engine} {self.framework_version}", self.precision.value]
        if self.cuda_version:
            parts.append(f"CUDA {self.cuda_version}")
        if self.cudnn_version:
            parts.append(f"cuDNN {self.cudnn_version}")
        if self.memory_format != "contiguous":
            parts.append(self.memory_format)
        if self.cudnn_benchmark:
            parts.append("benchmark mode")
        if not self.cuda_version and self.engine is Engine.TORCH:
            parts.append(f"{self.threads} thread{'s' if self.threads != 1 else ''}")
        return " · ".join(parts)


def summarize_samples(samples_ms: list[float] | tuple[float, ...]) -> float:
    """Median in milliseconds after the largest sample is dropped (one sample stands for itself).

    Raises ``ValueError`` on an empty list or a sample that is not a positive finite number.
    """
    if not samples_ms:
        raise ValueError("a timing needs at least one sample")
    if any(not math.isfinite(sample) or sample <= 0 for sample in samples_ms):
        raise ValueError("samples must be positive finite milliseconds")
    kept = sorted(samples_ms)[: max(1, len(samples_ms) - 1)]
    middle = len(kept) // 2
    return kept[middle] if len(kept) % 2 else (kept[middle - 1] + kept[middle]) / 2
