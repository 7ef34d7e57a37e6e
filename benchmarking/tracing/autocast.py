"""What autograd keeps of a forward pass under CUDA autocast, on a machine without a GPU.

PyTorch's autocast acts on the device that a tensor claims to be on, above the place where
kernels run. So the forward pass runs on tensors that say ``cuda`` and hold no data: the
operation lists are those of the installed version, and neither GPU nor driver is needed.
``FakeTensorMode`` does the same at ten times the cost; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarking.tracing.building import replaced_state
from benchmarking.tracing.kept_bytes import KeptStorages
from benchmarking.tracing.shape_memory import ShapeMemory

_DEVICE = "cuda:0"

Loss = Callable[[Any, Callable[..., torch.Tensor]], torch.Tensor]


def amp_kept_bytes(
    module: nn.Module,
    batch_size: int,
    input_shape: tuple[int, ...],
    loss: Loss,
    memory: ShapeMemory,
) -> int:
    """Bytes kept for the backward pass of one batch under autocast to ``float16``.

    ``module`` is on ``meta`` in training mode; ``input_shape`` is channels, height, width;
    ``loss`` takes the outputs and a function from a shape to class labels. The half-precision
    copies that autocast makes of weights are kept for the backward pass, so they count (they
    do not depend on the batch); the FP32 parameters do not. cuDNN is off, so that the answer
    is the same for a PyTorch that was built without it.
    """
    _tolerate_missing_gpu()
    images = _ClaimedTensor(torch.empty((batch_size, *input_shape), device="meta"))
    with replaced_state(module, _claim) as parameters:
        kept = _KeptClaimedStorages(parameters)
        with (
            torch.backends.cudnn.flags(enabled=False),
            _FactoriesOnMeta(),
            _ClaimedDevice(memory),
            _cuda_autocast(),
            kept.watch(),
        ):
            loss(module(images), _targets)
    return kept.bytes


def _claim(tensor: torch.Tensor) -> _ClaimedTensor:
    return _ClaimedTensor(tensor.detach(), requires_grad=tensor.requires_grad)


def _targets(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.long, device="meta")  # claimed by the mode around it


class _KeptClaimedStorages(KeptStorages):
    """Counts by the storages of the ``meta`` tensors behind."""

    def add(self, tensor: torch.Tensor) -> None:
        super().add(tensor.shape_holder if isinstance(tensor, _ClaimedTensor) else tensor)


def _tolerate_missing_gpu() -> None:
    """Let autograd meet a CUDA tensor where no driver is, instead of ending the process."""
    with FakeTensorMode():
        pass


class _ClaimedTensor(torch.Tensor):
    """A tensor that says it is on a CUDA device; ``shape_holder`` is its ``meta`` tensor."""

    shape_holder: torch.Tensor

    @staticmethod
    def __new__(cls, shape_holder: torch.Tensor, requires_grad: bool = False) -> _ClaimedTensor:
        tensor: _ClaimedTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            shape_holder.shape,
            strides=shape_holder.stride(),
            storage_offset=shape_holder.storage_offset(),
            dtype=shape_holder.dtype,
            device=_DEVICE,
            requires_grad=requires_grad,
        )
        tensor.shape_holder = shape_holder
        return tensor

    def __init__(self, shape_holder: torch.Tensor, requires_grad: bool = False) -> None:
        super().__init__()

    @classmethod
    def __torch_dispatch__(
        cls,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        raise AssertionError(f"{func} ran outside of the mode that answers it")


class _FactoriesOnMeta(TorchFunctionMode):
    """Turns requests for memory on a CUDA device, which would start the driver, to ``meta``."""

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return func(*map(_on_meta, args), **{k: _on_meta(v) for k, v in (kwargs or {}).items()})


def _on_meta(value: Any) -> Any:
    return torch.device("meta") if isinstance(value, torch.device) else value


class _ClaimedDevice(TorchDispatchMode):
    """Answers every operation, factories included, with tensors that claim the device."""

    def __init__(self, memory: ShapeMemory) -> None:
        super().__init__()
        self._memory = memory

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Leave the method unwrapped: nothing is compiled here, and the wrapper costs time."""
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        held = _held(args)
        held_kwargs = {
            name: "meta" if name == "device" and value is not None else _held(value)
            for name, value in (kwargs or {}).items()
        }
        result = self._memory.evaluate(func, held, held_kwargs)
        if held and result is held[0]:
            return args[0]
        return _claimed(result)


def _held(value: Any) -> Any:
    if isinstance(value, _ClaimedTensor):
        return value.shape_holder
    if isinstance(value, torch.Tensor):
        return value.to("meta")
    if isinstance(value, (list, tuple)):
        return type(value)(_held(item) for item in value)
    return value


def _claimed(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _ClaimedTensor(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_claimed(item) for item in value)
    return value


@contextmanager
def _cuda_autocast() -> Iterator[None]:
    """``torch.autocast("cuda", torch.float16)``, which itself does nothing where no GPU is."""
    enabled = torch.is_autocast_enabled("cuda")
    dtype = torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.float16)
    torch.autocast_increment_nesting()
    try:
        yield
    finally:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
        torch.set_autocast_enabled("cuda", enabled)
        torch.set_autocast_dtype("cuda", dtype)
