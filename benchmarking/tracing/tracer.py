"""Traces one whole training iteration of a network: forward, loss, backward, optimizer step.

The iteration runs twice on ``meta`` tensors, at batch sizes 2 and 3: the difference of two
totals is the part per example, the rest is fixed. The optimizer is SGD with momentum 0.9 and
weight decay in its steady state (the momentum buffers exist), in PyTorch's loop over the
parameters, which is what a CPU runs; a GPU's default does the same arithmetic in fewer, larger
launches, of which the number follows from ``parameter_tensors``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarking.specs import ConvolutionSpec, ConvolutionUse, OperationSpec, Phase, TracedNetwork
from benchmarking.tracing.assembly import (
    BATCH_SIZES,
    LARGEST_IMAGE_SIZE,
    BatchDependenceError,
    IterationTotals,
    UntrainedLayerError,
    assemble_network,
    convolution_uses,
)
from benchmarking.tracing.autocast import amp_kept_bytes
from benchmarking.tracing.building import ModuleFactory, build_on_meta, first_line, is_lazy
from benchmarking.tracing.errors import UntraceableError
from benchmarking.tracing.kept_bytes import KeptStorages
from benchmarking.tracing.recorder import IterationRecorder
from benchmarking.tracing.shape_memory import ShapeMemory

MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4


def trace_network(
    module_factory: ModuleFactory,
    *,
    slug: str,
    family: str,
    image_size: int,
    auxiliary_weight: float = 0.0,
    factory_without_heads: ModuleFactory | None = None,
    in_channels: int = 3,
) -> TracedNetwork:
    """Trace the network that ``module_factory`` builds, on square images.

    Parameters
    ----------
    module_factory
        Returns the module. Its output is a tensor of class scores, or a tuple, list or dict of
        which the first is that and the others are auxiliary heads (``None`` is left out).
    slug, family
        Names that the trace carries.
    image_size
        Height and width of the images in pixels.
    auxiliary_weight
        Factor of each auxiliary head's loss.
    factory_without_heads
        Builds the network without auxiliary heads, for images that are too small for them.
    in_channels
        Channels of the images.

    Raises
    ------
    UntraceableError
        If the network cannot train on images of this size, or is not covered.
    """
    tracer = NetworkTracer(
        module_factory,
        slug=slug,
        family=family,
        auxiliary_weight=auxiliary_weight,
        factory_without_heads=factory_without_heads,
        in_channels=in_channels,
    )
    return tracer.trace(image_size)


class NetworkTracer:
    """Traces one network at several image sizes, building it once; arguments as above."""

    def __init__(
        self,
        module_factory: ModuleFactory,
        *,
        slug: str,
        family: str,
        auxiliary_weight: float = 0.0,
        factory_without_heads: ModuleFactory | None = None,
        in_channels: int = 3,
    ) -> None:
        self._slug = slug
        self._family = family
        self._in_channels = in_channels
        self._network = _BuiltNetwork(module_factory, auxiliary_weight)
        self._without_heads = (
            _BuiltNetwork(factory_without_heads, 0.0) if factory_without_heads else None
        )

    def trace(self, image_size: int) -> TracedNetwork:
        """Trace at one image size; raises ``UntraceableError`` as :func:`trace_network` does."""
        if not 1 <= image_size <= LARGEST_IMAGE_SIZE:
            raise UntraceableError(
                f"image size {image_size} is not between 1 and {LARGEST_IMAGE_SIZE} pixels"
            )
        try:
            return self._trace(self._network, image_size, note="")
        except UntraceableError as error:
            if self._without_heads is None:
                raise UntraceableError(
                    f"{self._slug} cannot train on {image_size} px images: {error}"
                ) from error
        try:
            return self._trace(
                self._without_heads,
                image_size,
                note=f"Traced without its auxiliary head, which {image_size} px images do not fit.",
            )
        except UntraceableError as error:
            raise UntraceableError(
                f"{self._slug} cannot train on {image_size} px images: {error}"
            ) from error

    def _trace(self, network: _BuiltNetwork, image_size: int, note: str) -> TracedNetwork:
        input_shape = (self._in_channels, image_size, image_size)
        small, large = (network.run(batch_size, input_shape) for batch_size in BATCH_SIZES)
        try:
            return assemble_network(
                slug=self._slug,
                family=self._family,
                image_size=image_size,
                parameter_elements=[
                    parameter.numel() for parameter in network.module().parameters()
                ],
                iterations=(small.totals(), large.totals()),
                optimizer_steps=network.optimizer_steps(),
                convolutions=_convolution_uses(small.recorder),
                normalizes_one_value=small.recorder.normalizes_one_value,
                note=note,
            )
        except BatchDependenceError as error:
            raise UntraceableError(str(error)) from error


@dataclass(frozen=True)
class _Iteration:
    """One traced forward and backward pass; bytes kept in FP32 and under autocast."""

    recorder: IterationRecorder
    kept_bytes: int
    amp_kept_bytes: int

    def totals(self) -> IterationTotals:
        """What assembling needs of it."""
        return IterationTotals(self.recorder.totals, self.kept_bytes, self.amp_kept_bytes)


class _BuiltNetwork:
    """A module on ``meta``, built when it is first needed, and what is traced once for it."""

    def __init__(self, factory: ModuleFactory, auxiliary_weight: float) -> None:
        self._factory = factory
        self._auxiliary_weight = auxiliary_weight
        self._module: nn.Module | None = None
        self._optimizer_steps: tuple[OperationSpec, ...] | None = None
        self._memory = ShapeMemory()

    def module(self) -> nn.Module:
        """The module, in training mode."""
        if self._module is None:
            self._module = build_on_meta(self._factory)
        return self._module

    def run(self, batch_size: int, input_shape: tuple[int, ...]) -> _Iteration:
        """Trace one forward and backward pass."""
        module = self.module()
        images = torch.empty((batch_size, *input_shape), device="meta")
        # The labels are there before the iteration: made while kept bytes are counted.
        targets = functools.cache(_meta_targets)
        recorder = IterationRecorder(self._memory)
        try:
            if is_lazy(module):
                module(images)
            kept_bytes = self._kept_bytes(images, targets)
            for parameter in module.parameters():
                parameter.grad = None
            with recorder:
                loss = self._loss(module(images), targets)
                recorder.phase = Phase.BACKWARD
                loss.backward()
        except UntraceableError:
            raise
        except Exception as error:  # the network's own code may raise anything
            raise UntraceableError(first_line(error)) from error
        amp_bytes = amp_kept_bytes(module, batch_size, input_shape, self._loss, self._memory)
        return _Iteration(recorder, kept_bytes, amp_bytes)

    def _kept_bytes(self, images: torch.Tensor, targets: Callable[..., torch.Tensor]) -> int:
        """Bytes kept in FP32; a pass of its own, because hooks on saved tensors cost calls."""
        kept = KeptStorages(self.module().parameters())
        with IterationRecorder(self._memory), kept.watch():
            self._loss(self.module()(images), targets)
        return kept.bytes

    def optimizer_steps(self) -> tuple[OperationSpec, ...]:
        """The operations of one optimizer step, which depend on the parameters alone."""
        if self._optimizer_steps is None:
            self._optimizer_steps = _trace_optimizer(self.module())
        return self._optimizer_steps

    def _loss(self, outputs: Any, targets: Callable[..., torch.Tensor]) -> torch.Tensor:
        scores = _score_tensors(outputs)
        losses = [F.cross_entropy(score, targets(_target_shape(score))) for score in scores]
        loss = losses[0]
        for auxiliary in losses[1:]:
            loss = loss + self._auxiliary_weight * auxiliary
        return loss


def _meta_targets(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.long, device="meta")


def _score_tensors(outputs: Any) -> list[torch.Tensor]:
    if isinstance(outputs, torch.Tensor):
        found: list[Any] = [outputs]
    elif isinstance(outputs, dict):
        found = list(outputs.values())
    elif isinstance(outputs, (list, tuple)):
        found = list(outputs)
    else:
        found = []
    scores = [score for score in found if score is not None]
    if not scores or not all(isinstance(s, torch.Tensor) and s.dim() >= 2 for s in scores):
        raise UntraceableError(
            "its output is no tensor of class scores with shape (batch, classes)"
        )
    return scores


def _target_shape(score: torch.Tensor) -> tuple[int, ...]:
    return (int(score.shape[0]), *(int(extent) for extent in score.shape[2:]))


def _trace_optimizer(module: nn.Module) -> tuple[OperationSpec, ...]:
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(
        parameters, lr=0.1, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY, foreach=False
    )
    optimizer.step()
    recorder = IterationRecorder()
    recorder.phase = Phase.OPTIMIZER
    with recorder:
        optimizer.step()
    return tuple(
        OperationSpec(
            name=name,
            phase=phase,
            calls=totals.calls,
            bytes_per_example=0.0,
            bytes_fixed=float(totals.bytes),
        )
        for (phase, name), totals in sorted(recorder.totals.items())
    )


def _convolution_uses(recorder: IterationRecorder) -> tuple[ConvolutionUse, ...]:
    backward: dict[tuple[ConvolutionSpec, bool], int] = {}
    for (layer, needs_input, needs_weight), count in recorder.backward_convolutions.items():
        if not needs_weight:
            raise UntraceableError(
                f"the weights of convolution {layer.key} are frozen; "
                "forecasts are about training every layer"
            )
        backward[layer, needs_input] = count
    try:
        return convolution_uses(recorder.forward_convolutions, backward)
    except UntrainedLayerError as error:
        raise UntraceableError(
            f"convolution {error.layer.key} is not trained (frozen, detached or unused); "
            "forecasts are about training every layer"
        ) from error
