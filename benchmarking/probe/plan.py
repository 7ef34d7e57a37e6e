"""The plan that the probe reads from its standard input; no Django and no torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarking.specs import ConvolutionSpec, DeviceKind, Engine, Optimizer, Pass, Precision

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many samples a timing gets.

    At least ``repeats`` after ``warmup`` unrecorded calls; then more until the samples add up
    to ``minimum_ms`` or there are ``maximum_repeats``; one timing ends after ``item_seconds``
    in any case.
    """

    warmup: int
    repeats: int
    maximum_repeats: int
    minimum_ms: float
    item_seconds: float

    def expected_seconds(self, run_seconds: float) -> float:
        """How long a timing of something that takes ``run_seconds`` keeps the device busy."""
        wanted = self.minimum_ms / 1000 / run_seconds if run_seconds > 0 else 0.0
        repeats = min(max(self.repeats, wanted), self.maximum_repeats)
        return min((self.warmup + repeats) * run_seconds, self.item_seconds + run_seconds)


@dataclass(frozen=True, slots=True)
class SamplingPair:
    """The sampling of convolution passes and that of whole iterations."""

    convolution: Sampling
    iteration: Sampling


# Design of the measurements on a GPU: 10 repeats, of which the largest is dropped.
CUDA_SAMPLING = SamplingPair(
    convolution=Sampling(3, 10, 10, 0.0, 60.0), iteration=Sampling(3, 10, 10, 0.0, 60.0)
)
# One CPU core is a thousand times slower and steadier: fewer repeats of what takes long, more of
# what is over in a moment.
CPU_SAMPLING = SamplingPair(
    convolution=Sampling(1, 2, 12, 15.0, 30.0), iteration=Sampling(1, 2, 6, 300.0, 14.0)
)


def default_sampling(kind: DeviceKind) -> SamplingPair:
    """The sampling for a kind of device unless told otherwise."""
    return CUDA_SAMPLING if kind is DeviceKind.CUDA else CPU_SAMPLING


@dataclass(frozen=True, slots=True)
class StackRequest:
    """What of the software stack the plan chooses; the versions are what is installed there.

    ``threads`` counts for a CPU; 0 leaves the framework's own number. ``engine`` decides which
    program reads the plan.
    """

    precision: Precision = Precision.FP32
    memory_format: str = "contiguous"
    cudnn_benchmark: bool = False
    threads: int = 1
    engine: Engine = Engine.TORCH


@dataclass(frozen=True, slots=True)
class ConvolutionWork:
    """Time ``passes`` of one layer at one batch size."""

    layer: ConvolutionSpec
    batch_size: int
    passes: tuple[Pass, ...]
    round: int = 1

    def as_item(self) -> dict[str, Any]:
        """The work as the probe reads it."""
        return {
            "kind": "convolution",
            "layer": asdict(self.layer),
            "batch_size": self.batch_size,
            "passes": [operation.value for operation in self.passes],
            "round": self.round,
        }

    def __str__(self) -> str:
        return f"{self.layer.key} x {self.batch_size}"


@dataclass(frozen=True, slots=True)
class IterationWork:
    """Time whole iterations of one torchvision network at one batch size."""

    architecture: str
    image_size: int
    auxiliary_heads: bool
    batch_size: int
    optimizer: Optimizer = Optimizer.SGD
    round: int = 1

    def as_item(self) -> dict[str, Any]:
        """The work as the probe reads it."""
        return {
            "kind": "iteration",
            "architecture": self.architecture,
            "image_size": self.image_size,
            "auxiliary_heads": self.auxiliary_heads,
            "optimizer": self.optimizer.value,
            "batch_size": self.batch_size,
            "round": self.round,
        }

    def __str__(self) -> str:
        return f"{self.architecture} x {self.batch_size}"


Work = ConvolutionWork | IterationWork


def work_of_plan(plan: Mapping[str, Any]) -> list[Work]:
    """The work of a stored plan, in its order."""
    return [_work_of_item(item) for item in plan["work"]]


def stack_of_plan(plan: Mapping[str, Any]) -> StackRequest:
    """What a stored plan chooses of the software stack."""
    values = dict(plan["stack"])
    # Plans of before there was a second engine name none.
    engine = Engine(values.pop("engine", Engine.TORCH))
    return StackRequest(**{**values, "precision": Precision(values["precision"])}, engine=engine)


def _work_of_item(item: Mapping[str, Any]) -> Work:
    values = {name: value for name, value in item.items() if name != "kind"}
    if item["kind"] == "convolution":
        values["layer"] = ConvolutionSpec(**values["layer"])
        values["passes"] = tuple(Pass(operation) for operation in values["passes"])
        return ConvolutionWork(**values)
    values["optimizer"] = Optimizer(values["optimizer"])
    return IterationWork(**values)


def build_plan(
    *,
    machine: str,
    kind: DeviceKind,
    stack: StackRequest,
    work: Sequence[Work],
    time_budget_seconds: float,
    cpu_affinity: Sequence[int] | None = None,
    sampling: SamplingPair | None = None,
    dnnmark_root: str = "",
) -> dict[str, Any]:
    """The plan of ``work``, in this order, for a machine.

    Parameters
    ----------
    machine
        Slug that the environment record repeats.
    cpu_affinity
        Numbers of the cores that the probe pins itself to; ``None`` leaves it where it is.
    sampling
        By default that of the kind of device.
    dnnmark_root
        Folder of the built DNNMark tree there, for that engine.
    """
    chosen = sampling or default_sampling(kind)
    plan = {
        "schema": SCHEMA,
        "machine": machine,
        "device": kind.value,
        "stack": {
            **asdict(stack),
            "precision": stack.precision.value,
            "engine": stack.engine.value,
        },
        "cpu_affinity": list(cpu_affinity) if cpu_affinity else None,
        "sampling": asdict(chosen),
        "time_budget_seconds": time_budget_seconds,
        "work": [item.as_item() for item in work],
    }
    if stack.engine is Engine.DNNMARK:
        plan["dnnmark"] = {"root": dnnmark_root}
    return plan
