"""A training iteration as shapes: operations, gradients and what is kept, without a framework.

It follows PyTorch's rules as the tracer observes them (`benchmarking/tracing`): which tensors an
operation saves, which operations its backward pass runs, where gradients are added up. Bytes
are counted like there: every argument and result once per direction, views move none.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from benchmarking.specs import ConvolutionSpec, Phase
from benchmarking.tracing.assembly import OperationTotals

FLOAT = 4
HALF = 2
LONG = 8


class Storage:
    """The memory behind one or several tensors; ``parameter`` memory is not counted as kept."""

    __slots__ = ("bytes", "parameter")

    def __init__(self, size: int, parameter: bool = False) -> None:
        self.bytes = size
        self.parameter = parameter


@dataclass(eq=False, slots=True)
class Tensor:
    """A tensor without data. ``distinct`` elements lie in memory (fewer when expanded)."""

    shape: tuple[int, ...]
    element_bytes: int
    storage: Storage
    requires_grad: bool = False
    contiguous: bool = True
    expanded_from: int | None = None

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes that reading it moves; an expanded dimension is read once."""
        distinct = self.elements if self.expanded_from is None else self.expanded_from
        return distinct * self.element_bytes


Gradients = Sequence[Tensor | None]
Backward = Callable[[list[Tensor | None]], Gradients]


@dataclass(slots=True)
class _Record:
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    backward: Backward
    kept_results: int


@dataclass
class Tape:
    """Runs operations and remembers how to run them backward.

    With ``half`` the forward pass is the one under automatic mixed precision; only what it
    keeps is meaningful then.
    """

    half: bool = False
    phase: Phase = Phase.FORWARD
    totals: dict[tuple[Phase, str], OperationTotals] = field(
        default_factory=lambda: defaultdict(OperationTotals)
    )
    forward_convolutions: dict[ConvolutionSpec, int] = field(
        default_factory=lambda: defaultdict(int)
    )
    backward_convolutions: dict[tuple[ConvolutionSpec, bool], int] = field(
        default_factory=lambda: defaultdict(int)
    )
    normalizes_one_value: bool = False
    parameters: list[Tensor] = field(default_factory=list)
    _records: list[_Record] = field(default_factory=list)
    _kept: dict[int, Storage] = field(default_factory=dict)
    _halves: dict[int, Tensor] = field(default_factory=dict)

    @property
    def kept_bytes(self) -> int:
        """Bytes kept for the backward pass, each storage once, without parameters."""
        return sum(storage.bytes for storage in self._kept.values())

    def new(
        self, shape: Iterable[int], element_bytes: int = FLOAT, *, requires_grad: bool = False
    ) -> Tensor:
        """A tensor with memory of its own."""
        shape = tuple(shape)
        storage = Storage(math.prod(shape) * element_bytes)
        return Tensor(shape, element_bytes, storage, requires_grad)

    def parameter(self, shape: Iterable[int]) -> Tensor:
        """A tensor that is trained."""
        tensor = self.new(shape, requires_grad=True)
        tensor.storage.parameter = True
        self.parameters.append(tensor)
        return tensor

    def view(self, tensor: Tensor, shape: Iterable[int], *, contiguous: bool = True) -> Tensor:
        """Another shape of the same memory."""
        return Tensor(
            tuple(shape), tensor.element_bytes, tensor.storage, tensor.requires_grad, contiguous
        )

    def emit(
        self,
        name: str,
        reads: Iterable[Tensor | None] = (),
        writes: Iterable[Tensor | None] = (),
        *,
        multiply_adds: int = 0,
        extra_bytes: int = 0,
    ) -> None:
        """Count one call of an operation."""
        totals = self.totals[self.phase, name]
        totals.calls += 1
        totals.bytes += extra_bytes
        totals.bytes += sum(tensor.bytes for tensor in reads if tensor is not None)
        totals.bytes += sum(tensor.bytes for tensor in writes if tensor is not None)
        totals.multiply_adds += multiply_adds

    def emit_views(self, name: str, calls: int = 1) -> None:
        """Count calls that move no bytes."""
        self.totals[self.phase, name].calls += calls

    def record(
        self,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        kept: Iterable[Tensor],
        backward: Backward,
    ) -> None:
        """Keep tensors for the backward pass of an operation, if it will have one.

        ``backward`` takes the gradients of the outputs and gives those of the inputs. A list of
        outputs may grow afterwards.
        """
        if not any(tensor.requires_grad for tensor in inputs):
            return
        kept_results = 0
        for tensor in kept:
            # Keeping one's own result and taking it out again are a ``detach`` each.
            kept_results += any(tensor is output for output in outputs)
            if not tensor.storage.parameter:
                self._kept[id(tensor.storage)] = tensor.storage
        for tensor in outputs:
            tensor.requires_grad = True
        if kept_results:
            self.emit_views("detach", kept_results)
        self._records.append(_Record(inputs, outputs, backward, kept_results))

    def as_half(self, tensor: Tensor) -> Tensor:
        """What autocast hands to a convolution or matrix product."""
        if not self.half or tensor.element_bytes == HALF:
            return tensor
        known = self._halves.get(id(tensor))
        if known is None:
            known = self.new(tensor.shape, HALF, requires_grad=tensor.requires_grad)
            if tensor.storage.parameter:
                self._halves[id(tensor)] = known
        return known

    def as_float(self, tensor: Tensor) -> Tensor:
        """What autocast hands to an operation that needs full precision."""
        if not self.half or tensor.element_bytes != HALF:
            return tensor
        return self.new(tensor.shape, FLOAT, requires_grad=tensor.requires_grad)

    def run_backward(self, loss: Tensor) -> None:
        """Run the backward pass from a scalar loss."""
        self.phase = Phase.BACKWARD
        start = self.new(())
        self.emit("ones_like", (), (start,))
        gradients: dict[int, Tensor] = {id(loss): start}
        for record in reversed(self._records):
            arrived = [gradients.pop(id(output), None) for output in record.outputs]
            if all(gradient is None for gradient in arrived):
                continue
            if record.kept_results:
                self.emit_views("detach", record.kept_results)
            for tensor, gradient in zip(record.inputs, record.backward(arrived)):
                if gradient is not None and tensor.requires_grad:
                    self._accumulate(gradients, tensor, gradient)
        for parameter in self.parameters:
            if id(parameter) in gradients:
                self.emit_views("detach")

    def _accumulate(self, gradients: dict[int, Tensor], tensor: Tensor, gradient: Tensor) -> None:
        earlier = gradients.get(id(tensor))
        if earlier is not None:
            total = self.new(tensor.shape)
            self.emit("add", (earlier, gradient), (total,))
            gradient = total
        gradients[id(tensor)] = gradient
