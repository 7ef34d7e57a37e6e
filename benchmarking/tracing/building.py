"""Builds a module whose parameters have shapes and no memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from benchmarking.tracing.errors import UntraceableError

ModuleFactory = Callable[[], nn.Module]


def build_on_meta(factory: ModuleFactory) -> nn.Module:
    """Build a module in training mode with all parameters and buffers on ``meta``.

    The module's code runs on the CPU, because some networks compute their widths with real
    tensors; each parameter moves to ``meta`` the moment it is registered, so that nobody waits
    for an initialisation or needs the memory of all weights. A network whose code does not
    stand that is built on the CPU as a whole and then moved.

    Raises ``UntraceableError`` if the factory fails or returns something else than a module.
    """
    try:
        module = _build_without_memory(factory)
    except Exception:  # the network's own code may raise anything
        try:
            module = factory()
        except Exception as error:
            raise UntraceableError(f"building it failed: {first_line(error)}") from error
    if not isinstance(module, nn.Module):
        raise UntraceableError(
            f"the factory returned {type(module).__name__}, not a torch.nn.Module"
        )
    if not any(True for _ in module.parameters()):
        raise UntraceableError("it has no parameters to train")
    if not is_lazy(module):
        module = module.to("meta")
    return module.train()


def is_lazy(module: nn.Module) -> bool:
    """Whether layers of the module wait for a first batch to learn their shapes."""
    return any(isinstance(parameter, UninitializedParameter) for parameter in module.parameters())


@contextmanager
def replaced_state(
    module: nn.Module, replace: Callable[[torch.Tensor], torch.Tensor]
) -> Iterator[Mapping[nn.Parameter, torch.Tensor]]:
    """Put ``replace(tensor)`` in the place of every parameter and buffer inside the block.

    A tensor that appears in several places is replaced by one and the same. Unlike
    ``torch.func.functional_call`` this also puts the originals back where one module is
    registered under two names. Yields the replacements of the parameters.
    """
    parts = list(module.modules())
    originals = [(dict(part._parameters), dict(part._buffers)) for part in parts]
    replacements: dict[torch.Tensor, torch.Tensor] = {}
    for part in parts:
        for tensors in (part._parameters, part._buffers):
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                if tensor not in replacements:
                    replacements[tensor] = replace(tensor)
                tensors[name] = replacements[tensor]
    try:
        yield {
            original: replacement
            for original, replacement in replacements.items()
            if isinstance(original, nn.Parameter)
        }
    finally:
        for part, (parameters, buffers) in zip(parts, originals, strict=True):
            part._parameters.update(parameters)
            part._buffers.update(buffers)


def first_line(error: Exception) -> str:
    """An exception's message without its second and later lines."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _build_without_memory(factory: ModuleFactory) -> nn.Module:
    # A parameter that two modules share stays one: the first move is remembered, together with
    # the original, whose id would be used again if it were gone.
    moved: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def to_meta(module: nn.Module, name: str, tensor: torch.Tensor | None) -> torch.Tensor | None:
        if tensor is None or tensor.is_meta:
            return None
        if id(tensor) not in moved:
            moved[id(tensor)] = (tensor, _on_meta(tensor))
        return moved[id(tensor)][1]

    handles = (
        register_module_parameter_registration_hook(to_meta),
        register_module_buffer_registration_hook(to_meta),
    )
    try:
        return factory()
    finally:
        for handle in handles:
            handle.remove()


def _on_meta(tensor: torch.Tensor) -> torch.Tensor:
    make: Any = type(tensor)
    if isinstance(tensor, UninitializedParameter):
        return make(requires_grad=tensor.requires_grad, device="meta")
    if isinstance(tensor, UninitializedBuffer):
        return make(device="meta")
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(tensor.to("meta"), requires_grad=tensor.requires_grad)
    return tensor.to("meta")
