"""Memory of an iteration in one place, and whether it fits there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarking.models import Device
from benchmarking.specs import DeviceSpec, TracedNetwork
from regression.answers import Place
from regression.memory import Fits, MemoryModel
from regression.timings import smallest_failed_batch

MIB_PER_GIB = 1024

LARGEST_BATCH_SIZE = 4096
"""Nobody asks for more; small networks fit more on any device."""


@dataclass(frozen=True)
class MemoryNeed:
    """``memory_mib`` and ``fits`` (yes, no, unknown) follow the batch sizes asked for."""

    memory_mib: tuple[float | None, ...]
    fits: tuple[str, ...]
    largest_batch: int | None


def memory_need(
    architecture_id: int,
    network: TracedNetwork,
    place: Place,
    sizes: Sequence[int],
    largest_measured: int = 0,
) -> MemoryNeed:
    """The memory of an iteration at each of ``sizes``, against what the place has.

    What was seen there beats what the model says: a batch as small as one that was measured
    (``largest_measured``, 0 without) fits, one as large as one that ran out of memory does not.
    """
    model, device = MemoryModel(), _device_spec(place)
    verdict = model.verdict(
        network, np.array(sizes, dtype=np.int64), place.optimizer, place.precision, device
    )
    largest = model.largest_batch_that_fits(
        network, place.optimizer, place.precision, device, largest=LARGEST_BATCH_SIZE
    )
    failed = (
        smallest_failed_batch(
            machine_id=place.machine.pk,
            architecture_id=architecture_id,
            precision=place.precision,
        )
        if place.machine is not None
        else None
    )
    fits = [_seen(size, each, largest_measured, failed) for size, each in zip(sizes, verdict.fits)]
    if largest is not None:
        largest = max(largest, largest_measured)
        largest = min(largest, failed - 1) if failed is not None else largest
    return MemoryNeed(
        tuple(float(mib) for mib in verdict.needed_mib), tuple(map(str, fits)), largest
    )


def _seen(size: int, fits: Fits, largest_measured: int, failed: int | None) -> Fits:
    if size <= largest_measured:
        return Fits.YES
    return Fits.NO if failed is not None and size >= failed else fits


def _device_spec(place: Place) -> DeviceSpec:
    """The device; a CPU whose own memory is unknown has that of its machine."""
    spec = place.device.to_spec()
    machine = place.machine
    if (
        place.device.kind == Device.Kind.CPU
        and spec.usable_memory_mib is None
        and machine is not None
        and machine.memory_gib is not None
    ):
        return replace(spec, usable_memory_mib=machine.memory_gib * MIB_PER_GIB)
    return spec
