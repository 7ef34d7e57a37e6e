"""Puts a network together from its training iterations at two batch sizes; needs no torch.

The difference of two totals is the part per example, the rest is fixed. The tracer and the ONNX
reader count an iteration in ways of their own and meet here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarking.specs import ConvolutionSpec, ConvolutionUse, OperationSpec, Phase, TracedNetwork

BATCH_SIZES = (2, 3)
LARGEST_IMAGE_SIZE = 4096

_PHASE_ORDER = {phase: position for position, phase in enumerate(Phase)}


class BatchDependenceError(ValueError):
    """An iteration does other operations for another batch size."""


class UntrainedLayerError(ValueError):
    """A convolution runs forward and not backward; ``layer`` says which."""

    def __init__(self, layer: ConvolutionSpec) -> None:
        super().__init__(layer.key)
        self.layer = layer


@dataclass(slots=True)
class OperationTotals:
    """Sums over all calls of one operation in one phase, for one batch."""

    calls: int = 0
    bytes: int = 0
    multiply_adds: int = 0


@dataclass(frozen=True, slots=True)
class IterationTotals:
    """What one forward and backward pass does for one batch of ``BATCH_SIZES``.

    ``kept_bytes`` and ``amp_kept_bytes`` are kept for the backward pass in FP32 and under
    autocast.
    """

    operations: Mapping[tuple[Phase, str], OperationTotals]
    kept_bytes: float
    amp_kept_bytes: float


def assemble_network(
    *,
    slug: str,
    family: str,
    image_size: int,
    parameter_elements: Sequence[int],
    iterations: tuple[IterationTotals, IterationTotals],
    optimizer_steps: Sequence[OperationSpec],
    convolutions: tuple[ConvolutionUse, ...],
    normalizes_one_value: bool,
    note: str,
) -> TracedNetwork:
    """The network whose iterations at the two ``BATCH_SIZES`` were counted.

    Parameters
    ----------
    parameter_elements
        Elements of each parameter tensor.
    normalizes_one_value
        Whether a batch of one example leaves a BatchNorm with one value a channel, which
        PyTorch refuses.

    Raises
    ------
    BatchDependenceError
        If the two iterations run different operations.
    """
    small, large = iterations
    operations = (*_split_operations(small.operations, large.operations), *optimizer_steps)
    saved_per_example, saved_fixed = _split(small.kept_bytes, large.kept_bytes)
    amp_per_example, amp_fixed = _split(small.amp_kept_bytes, large.amp_kept_bytes)
    return TracedNetwork(
        slug=slug,
        family=family,
        image_size=image_size,
        parameters=sum(parameter_elements),
        parameter_tensors=len(parameter_elements),
        multiply_adds=round(
            sum(
                operation.multiply_adds_per_example
                for operation in operations
                if operation.phase is Phase.FORWARD
            )
        ),
        saved_bytes_per_example=saved_per_example,
        saved_bytes_fixed=saved_fixed,
        saved_bytes_amp_per_example=amp_per_example,
        saved_bytes_amp_fixed=amp_fixed,
        convolutions=convolutions,
        operations=operations,
        minimum_batch_size=2 if normalizes_one_value else 1,
        note=note,
    )


def convolution_uses(
    forward: Mapping[ConvolutionSpec, int], backward: Mapping[tuple[ConvolutionSpec, bool], int]
) -> tuple[ConvolutionUse, ...]:
    """The layers with their counts, sorted.

    Parameters
    ----------
    forward
        Layer -> calls forward.
    backward
        (layer, whether its input needs a gradient) -> calls backward.

    Raises
    ------
    UntrainedLayerError
        For a layer that does not run backward as often as forward.
    """
    trained: dict[ConvolutionSpec, int] = {}
    uses = []
    for (layer, needs_input), count in backward.items():
        trained[layer] = trained.get(layer, 0) + count
        uses.append(ConvolutionUse(layer, count, needs_input))
    for layer, count in forward.items():
        if trained.get(layer, 0) != count:
            raise UntrainedLayerError(layer)
    return tuple(sorted(uses, key=lambda use: (use.layer, use.needs_input_gradient)))


def _split(small: float, large: float) -> tuple[float, float]:
    """Part per example and fixed part of a quantity at the two batch sizes."""
    per_example = (large - small) / (BATCH_SIZES[1] - BATCH_SIZES[0])
    return float(per_example), float(small - BATCH_SIZES[0] * per_example)


def _split_operations(
    small: Mapping[tuple[Phase, str], OperationTotals],
    large: Mapping[tuple[Phase, str], OperationTotals],
) -> list[OperationSpec]:
    calls_small = {key: totals.calls for key, totals in small.items()}
    calls_large = {key: totals.calls for key, totals in large.items()}
    if calls_small != calls_large:
        raise BatchDependenceError(
            f"it runs other operations for a batch of {BATCH_SIZES[0]} than for a batch of "
            f"{BATCH_SIZES[1]}"
        )
    operations = []
    for phase, name in sorted(small, key=lambda key: (_PHASE_ORDER[key[0]], key[1])):
        totals, larger = small[phase, name], large[phase, name]
        if totals.calls == 0:
            continue
        per_example, fixed = _split(totals.bytes, larger.bytes)
        multiply_adds, _ = _split(totals.multiply_adds, larger.multiply_adds)
        operations.append(
            OperationSpec(name, phase, totals.calls, per_example, fixed, multiply_adds)
        )
    return operations
