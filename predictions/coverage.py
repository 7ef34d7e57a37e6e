"""How much of a network is measured already, machine by machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarking.models import (
    Architecture,
    LayerTiming,
    Machine,
    MeasurementRun,
    SoftwareStack,
)


@dataclass(frozen=True, slots=True)
class CoverageLine:
    """Layers of a network that are timed on a machine's device, with its best-covered stack.

    ``share`` weighs each layer by its multiply-adds and its count, from 0 to 1.
    """

    machine: Machine
    stack: str
    measured_layers: int
    missing_layers: int
    share: float

    @property
    def percent(self) -> float:
        """The share in percent."""
        return 100 * self.share


def coverage_of(architecture: Architecture) -> list[CoverageLine]:
    """One line for each machine that has timings, the best covered first."""
    work = _work_of_layers(architecture)
    measured = _measured_layers(set(work))
    best: dict[Machine, CoverageLine] = {}
    for machine, stack in _machines_with_timings():
        layers = measured.get((machine.device_id, stack.pk), set())
        line = CoverageLine(
            machine,
            str(stack),
            len(layers),
            len(work) - len(layers),
            sum(work[layer] for layer in layers) / sum(work.values()),
        )
        if machine not in best or line.share > best[machine].share:
            best[machine] = line
    return sorted(best.values(), key=lambda line: (-line.share, line.machine.slug))


def machines_to_ask_for(
    coverage: Sequence[CoverageLine], requested: Sequence[Machine]
) -> list[Machine]:
    """Machines on which something is left to measure and nobody has asked for it yet."""
    complete = {line.machine for line in coverage if not line.missing_layers}
    current = Machine.objects.filter(availability=Machine.Availability.CURRENT)
    machines = current.select_related("device").order_by("slug")
    return [one for one in machines if one not in complete and one not in requested]


def _work_of_layers(architecture: Architecture) -> dict[int, int]:
    work: dict[int, int] = defaultdict(int)
    for use in architecture.uses.select_related("layer"):
        work[use.layer_id] += use.count * use.layer.to_spec().multiply_adds
    return dict(work)


def _measured_layers(layers: set[int]) -> dict[tuple[int, int], set[int]]:
    measured: dict[tuple[int, int], set[int]] = defaultdict(set)
    rows = (
        LayerTiming.objects.filter(layer_id__in=layers)
        .order_by()
        .values_list("run__machine__device_id", "run__stack_id", "layer_id")
        .distinct()
    )
    for device_id, stack_id, layer_id in rows:
        measured[device_id, stack_id].add(layer_id)
    return measured


def _machines_with_timings() -> list[tuple[Machine, SoftwareStack]]:
    runs = MeasurementRun.objects.filter(layer_timings__isnull=False)
    pairs = set(runs.order_by().values_list("machine_id", "stack_id").distinct())
    machines = Machine.objects.select_related("device").in_bulk({machine for machine, _ in pairs})
    stacks = SoftwareStack.objects.in_bulk({stack for _, stack in pairs})
    return [(machines[machine], stacks[stack]) for machine, stack in sorted(pairs)]
