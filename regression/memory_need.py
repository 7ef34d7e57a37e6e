"""Memory of an iteration in one place, and whether it fits there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarking.specs import TracedNetwork
from regression.answers import Place


@dataclass(frozen=True)
class MemoryNeed:
    """``memory_mib`` and ``fits`` (yes, no, unknown) follow the batch sizes asked for."""

    memory_mib: tuple[float | None, ...]
    fits: tuple[str, ...]
    largest_batch: int | None


def memory_need(network: TracedNetwork, place: Place, sizes: Sequence[int]) -> MemoryNeed:
    """The memory of an iteration at each of ``sizes``, against what the place has."""
    return MemoryNeed((None,) * len(sizes), ("unknown",) * len(sizes), None)
