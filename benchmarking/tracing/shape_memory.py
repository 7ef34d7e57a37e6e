"""Evaluates operations on tensors without data, remembering the shapes that they gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from benchmarking.tracing.errors import UntraceableError
from benchmarking.tracing.shape_rules import Recipe, infer, is_plain_inplace


class ShapeMemory:
    """Answers ``func(*args, **kwargs)`` on ``meta`` tensors.

    First by a rule of :mod:`.shape_rules`, then from memory, last by PyTorch. What it remembers
    depends on nothing but the arguments' shapes, strides and types, so repeated blocks of a
    network cost little.
    """

    def __init__(self, *, use_rules: bool = True) -> None:
        self._use_rules = use_rules
        self._recipes: dict[Any, Callable[[], Any]] = {}

    def evaluate(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The result, or ``UntraceableError`` where it would be empty."""
        if is_view(func):
            return func(*args, **kwargs)
        if self._use_rules:
            if is_plain_inplace(func):
                return args[0]
            recipe = infer(func, args)
            if recipe is not None:
                return _build(recipe)
        try:
            key = (func, _describe(args), _describe(tuple(kwargs.items())))
            remembered = self._recipes.get(key)
        except TypeError:  # an argument without a hash, such as a generator
            return func(*args, **kwargs)
        if remembered is not None:
            return remembered()
        result = func(*args, **kwargs)
        _refuse_empty(func, result)
        replay = _replay(func, result)
        if replay is not None:
            self._recipes[key] = replay
        return result


_VIEWS: dict[Any, bool] = {}


def is_view(func: Any) -> bool:
    """Whether the operation returns its argument's memory unchanged (and so moves none)."""
    known = _VIEWS.get(func)
    if known is None:
        known = func.overloadpacket.__name__ == "_unsafe_view" or any(
            value.alias_info is not None and not value.alias_info.is_write
            for value in func._schema.returns
        )
        _VIEWS[func] = known
    return known


def _build(recipe: Recipe) -> Any:
    if recipe is None:
        return None
    if isinstance(recipe[0], torch.Size) or isinstance(recipe[1], torch.dtype):
        return torch.empty(recipe[0], dtype=recipe[1], device="meta")
    return tuple(_build(part) for part in recipe)


def _describe(value: Any) -> Any:
    """A hashable stand-in of an argument: a tensor's shape, strides and type, else itself."""
    if isinstance(value, torch.Tensor):
        return (value.shape, value.stride(), value.dtype, value.device)
    if isinstance(value, (list, tuple)):
        return tuple(_describe(item) for item in value)
    return (type(value), value)


def _replay(func: Any, result: Any) -> Callable[[], Any] | None:
    """A function that gives tensors of the same shapes again, or None where unsure."""
    if func._schema.is_mutable:
        return None
    if _is_fresh(result):
        layout = _layout(result)
        return lambda: _from_layout(layout)
    if isinstance(result, tuple) and all(item is None or _is_fresh(item) for item in result):
        layouts = [None if item is None else _layout(item) for item in result]
        return lambda: tuple(None if layout is None else _from_layout(layout) for layout in layouts)
    return None


def _is_fresh(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "meta"


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype


def _from_layout(layout: tuple[Any, ...]) -> torch.Tensor:
    return torch.empty_strided(layout[0], layout[1], dtype=layout[2], device="meta")


def _refuse_empty(func: Any, result: Any) -> None:
    for tensor in result if isinstance(result, (list, tuple)) else (result,):
        if isinstance(tensor, torch.Tensor) and tensor.numel() == 0 and tensor.dim() > 1:
            raise UntraceableError(
                f"{func.overloadpacket.__name__} would give an empty tensor of shape "
                f"{tuple(tensor.shape)}; the image is too small for this network"
            )
