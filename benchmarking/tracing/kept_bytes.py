"""Bytes that autograd keeps between forward and backward, in FP32 and under autocast."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks


class KeptStorages:
    """Adds up the storages that autograd saves, each once, leaving given tensors out."""

    def __init__(self, left_out: Iterable[torch.Tensor]) -> None:
        self._left_out = [tensor.untyped_storage() for tensor in left_out]
        self._left_out_keys = {storage._cdata for storage in self._left_out}
        # The storages themselves are held, because an address is reused once it is free.
        self._kept: dict[int, torch.UntypedStorage] = {}

    def add(self, tensor: torch.Tensor) -> None:
        """Count the memory behind a saved tensor unless it is counted already."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self._left_out_keys:
            self._kept[storage._cdata] = storage

    @property
    def bytes(self) -> int:
        """Bytes of all counted storages."""
        return sum(storage.nbytes() for storage in self._kept.values())

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Count what is saved inside the block; its backward still runs."""

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            self.add(tensor)
            return tensor

        with saved_tensors_hooks(pack, _unpack):
            yield

    @contextmanager
    def watch_forward_only(self) -> Iterator[None]:
        """Count what is saved inside the block and drop it, so that no backward can run."""
        with saved_tensors_hooks(self.add, _unpack):
            yield


def _unpack(packed: Any) -> Any:
    return packed


def amp_kept_bytes(
    module: nn.Module,
    batch_size: int,
    input_shape: tuple[int, ...],
    loss: Callable[[Any, Callable[..., torch.Tensor]], torch.Tensor],
) -> int:
    """Bytes kept for the backward pass of one batch under CUDA autocast in half precision.

    PyTorch's own autocast decides what is kept in which precision: the forward pass and the
    loss run on tensors that claim to be on a CUDA device but hold no data, so the lists are
    those of the installed version and neither GPU nor driver is needed. The half-precision
    copies of weights that autocast makes are kept for the backward pass, so they count (they
    do not depend on the batch); the FP32 parameters do not. cuDNN is off, so that the answer
    is the same for a PyTorch built without it.
    """
    with FakeTensorMode(), torch.backends.cudnn.flags(enabled=False):
        state: dict[str, torch.Tensor] = {
            name: nn.Parameter(
                torch.empty(parameter.shape, dtype=parameter.dtype, device="cuda"),
                requires_grad=parameter.requires_grad,
            )
            for name, parameter in module.named_parameters()
        }
        parameters = list(state.values())
        for name, buffer in module.named_buffers():
            state[name] = torch.empty(buffer.shape, dtype=buffer.dtype, device="cuda")
        kept = KeptStorages(parameters)
        images = torch.empty((batch_size, *input_shape), device="cuda")
        with _cuda_autocast(), kept.watch_forward_only():
            outputs = torch.func.functional_call(module, state, (images,))
            loss(outputs, lambda shape: torch.empty(shape, dtype=torch.long, device="cuda"))
        return kept.bytes


@contextmanager
def _cuda_autocast() -> Iterator[None]:
    """``torch.autocast("cuda", torch.float16)``, which refuses to work where no GPU is."""
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
