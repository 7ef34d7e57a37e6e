"""Bytes that autograd keeps between forward and backward."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
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
        """Count what is saved inside the block and drop it: no backward pass can run."""
        with saved_tensors_hooks(self.add, _never_unpacked):
            yield


def _never_unpacked(packed: None) -> torch.Tensor:
    raise AssertionError("a backward pass ran over tensors that were counted and dropped")
