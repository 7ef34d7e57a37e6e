"""Which timings a machine still lacks, in the order that makes stopping early hurt least.

A convolution timing is good for every machine with the same device and software stack; a whole
iteration only for its own machine. Work of other jobs under way counts as done.
"""

from __future__ import annotations

import statistics
import uuid
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeVar

from django.db.models import Count, QuerySet

from benchmarking.auxiliary_heads import has_auxiliary_heads
from benchmarking.estimates import Estimates, current_estimates
from benchmarking.models import (
    Architecture,
    ArchitectureLayer,
    BenchmarkJob,
    FailedTiming,
    IterationTiming,
    LayerTiming,
    Machine,
    Price,
    SoftwareStack,
)
from benchmarking.probe.plan import (
    ConvolutionWork,
    IterationWork,
    SamplingPair,
    Work,
    default_sampling,
)
from benchmarking.specs import (
    ConvolutionSpec,
    DeviceKind,
    DeviceSpec,
    Optimizer,
    Pass,
    StackSpec,
    TracedNetwork,
)

CPU_BATCH_SIZES = (1, 2, 4, 8, 12, 16)
CUDA_BATCH_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
# The memory estimate is no measurement: what it just refuses is worth one attempt, which costs
# a second and tells where the limit is.
LARGEST_BATCH_MARGIN = 1.25
# These will not go better next time.
LASTING_FAILURES = (
    FailedTiming.Kind.OUT_OF_MEMORY,
    FailedTiming.Kind.UNTRAINABLE,
    FailedTiming.Kind.UNSUPPORTED,
)
ATTEMPTS_AFTER_FAILURE = 3
SECONDS_PER_ITEM = 0.05
SECONDS_PER_NETWORK = 1.0
CALIBRATION_TIMINGS = 200

_Key = TypeVar("_Key", bound=Hashable)
_LayerKey = tuple[str, int, Pass]
_IterationKey = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class MeasurementPlan:
    """The missing timings of a machine and what they are expected to take.

    ``already_measured`` counts timings that were asked for and are stored or under way;
    ``usd_per_hour`` is the newest price on demand, ``None`` where nobody knows one; ``left_out``
    says in sentences what was asked for and is not in the plan.
    """

    work: tuple[Work, ...]
    expected_seconds: float
    usd_per_hour: Decimal | None
    already_measured: int
    left_out: tuple[str, ...] = ()

    @property
    def expected_cost_usd(self) -> Decimal | None:
        """Price times expected time."""
        if self.usd_per_hour is None:
            return None
        return self.usd_per_hour * Decimal(self.expected_seconds) / 3600

    @property
    def timing_count(self) -> int:
        """Timings that the plan brings: every pass of a layer is one, every iteration is one."""
        return sum(
            len(item.passes) if isinstance(item, ConvolutionWork) else 1 for item in self.work
        )


def plan_measurements(
    *,
    machine: Machine,
    stack: StackSpec,
    architectures: Iterable[Architecture],
    batch_sizes: Sequence[int] | None = None,
    rounds: int = 1,
    optimizer: Optimizer = Optimizer.SGD,
    estimates: Estimates | None = None,
    sampling: SamplingPair | None = None,
) -> MeasurementPlan:
    """The work that is missing for ``architectures`` on ``machine`` with ``stack``.

    Parameters
    ----------
    architectures
        In the order of their importance; their uses and layers are best prefetched.
    batch_sizes
        By default those of the kind of device, up to what is expected to fit.
    rounds
        How many timings of each key are wanted; round 1 of everything comes first.
    """
    planner = _Planner(
        machine=machine,
        stack=stack,
        optimizer=optimizer,
        estimates=estimates or current_estimates(),
        sampling=sampling,
    )
    return planner.plan(list(architectures), batch_sizes, rounds)


@dataclass(slots=True)
class _Known:
    """How often each key is timed already or on its way, and what cannot be timed."""

    layers: Counter[_LayerKey] = field(default_factory=Counter)
    iterations: Counter[_IterationKey] = field(default_factory=Counter)
    failed_layers: set[tuple[str, int]] = field(default_factory=set)
    failed_iterations: set[_IterationKey] = field(default_factory=set)
    smallest_layer_out_of_memory: dict[str, int] = field(default_factory=dict)
    smallest_iteration_out_of_memory: dict[tuple[str, int], int] = field(default_factory=dict)

    def layer_is_hopeless(self, key: str, batch_size: int) -> bool:
        limit = self.smallest_layer_out_of_memory.get(key)
        return (key, batch_size) in self.failed_layers or (
            limit is not None and batch_size >= limit
        )

    def iteration_is_hopeless(self, slug: str, image_size: int, batch_size: int) -> bool:
        limit = self.smallest_iteration_out_of_memory.get((slug, image_size))
        failed = (slug, image_size, batch_size) in self.failed_iterations
        return failed or (limit is not None and batch_size >= limit)


class _Planner:
    def __init__(
        self,
        *,
        machine: Machine,
        stack: StackSpec,
        optimizer: Optimizer,
        estimates: Estimates,
        sampling: SamplingPair | None,
    ) -> None:
        self.machine = machine
        self.stack = stack
        self.optimizer = optimizer
        self.estimates = estimates
        self.device: DeviceSpec = machine.device.to_spec()
        self.sampling = sampling or default_sampling(self.device.kind)
        self.left_out: list[str] = []
        self.hopeless_count = 0

    def plan(
        self, architectures: list[Architecture], batch_sizes: Sequence[int] | None, rounds: int
    ) -> MeasurementPlan:
        networks = [
            (architecture, architecture.to_spec(), has_auxiliary_heads(architecture))
            for architecture in architectures
        ]
        known = self._known(architectures)
        scale = self._measured_over_estimated({network.slug: network for _, network, _ in networks})
        usable = {
            (network.slug, network.image_size): self._usable_batch_sizes(network, batch_sizes)
            for _, network, _ in networks
        }
        work: list[Work] = []
        expected_seconds = 0.0
        already_measured = 0
        for round_number in range(1, rounds + 1):
            # A layer that several networks share is timed once a round.
            planned: set[_LayerKey] = set()
            for _, network, heads in networks:
                sizes = usable[network.slug, network.image_size]
                iterations, done = self._iteration_work(network, heads, sizes, round_number, known)
                already_measured += done
                layers, done = self._layer_work(network, sizes, round_number, known, planned)
                already_measured += done
                work += iterations
                work += layers
                expected_seconds += scale * sum(
                    self._iteration_seconds(network, item) for item in iterations
                )
                expected_seconds += SECONDS_PER_NETWORK * bool(iterations)
                expected_seconds += scale * sum(self._layer_seconds(item) for item in layers)
        expected_seconds += SECONDS_PER_ITEM * len(work)
        if self.hopeless_count:
            self.left_out.append(
                f"{self.hopeless_count} timings failed here before (out of memory, or not "
                "supported) and are not tried again."
            )
        return MeasurementPlan(
            work=tuple(work),
            expected_seconds=expected_seconds,
            usd_per_hour=newest_usd_per_hour(self.machine),
            already_measured=already_measured,
            left_out=tuple(self.left_out),
        )

    def _usable_batch_sizes(
        self, network: TracedNetwork, wanted: Sequence[int] | None
    ) -> tuple[int, ...]:
        is_cpu = self.device.kind is DeviceKind.CPU
        sizes = wanted or (CPU_BATCH_SIZES if is_cpu else CUDA_BATCH_SIZES)
        too_small = [size for size in sizes if size < network.minimum_batch_size]
        if wanted and too_small:
            self.left_out.append(
                f"{network.slug} cannot train on fewer than {network.minimum_batch_size} examples."
            )
        largest = self.estimates.largest_batch(network, self.device)
        limit = None if largest is None else int(largest * LARGEST_BATCH_MARGIN)
        too_large = [size for size in sizes if limit is not None and size > limit]
        if wanted and too_large:
            self.left_out.append(
                f"{network.slug}: batch size {too_large[0]} and above do not fit into the memory "
                f"of {self.machine} (about {largest} do)."
            )
        return tuple(size for size in sizes if size not in too_small and size not in too_large)

    def _iteration_work(
        self,
        network: TracedNetwork,
        auxiliary_heads: bool,
        sizes: Iterable[int],
        round_number: int,
        known: _Known,
    ) -> tuple[list[IterationWork], int]:
        work: list[IterationWork] = []
        done = 0
        for size in sizes:
            if known.iterations[network.slug, network.image_size, size] >= round_number:
                done += 1
            elif known.iteration_is_hopeless(network.slug, network.image_size, size):
                self.hopeless_count += 1
            else:
                work.append(
                    IterationWork(
                        architecture=network.slug,
                        image_size=network.image_size,
                        auxiliary_heads=auxiliary_heads,
                        batch_size=size,
                        optimizer=self.optimizer,
                        round=round_number,
                    )
                )
        return work, done

    def _layer_work(
        self,
        network: TracedNetwork,
        sizes: Sequence[int],
        round_number: int,
        known: _Known,
        planned: set[_LayerKey],
    ) -> tuple[list[ConvolutionWork], int]:
        work: list[ConvolutionWork] = []
        done = 0
        for layer, passes in passes_of_layers(network).items():
            for size in sizes:
                wanted = [
                    operation for operation in passes if (layer.key, size, operation) not in planned
                ]
                missing = tuple(
                    operation
                    for operation in wanted
                    if known.layers[layer.key, size, operation] < round_number
                )
                planned.update((layer.key, size, operation) for operation in wanted)
                done += len(wanted) - len(missing)
                if not missing:
                    continue
                if known.layer_is_hopeless(layer.key, size):
                    self.hopeless_count += len(missing)
                    continue
                work.append(ConvolutionWork(layer, size, missing, round_number))
        return work, done

    def _iteration_seconds(self, network: TracedNetwork, item: IterationWork) -> float:
        seconds = self.estimates.iteration_seconds(network, item.batch_size, self.device)
        return self.sampling.iteration.expected_seconds(seconds)

    def _layer_seconds(self, item: ConvolutionWork) -> float:
        return sum(
            self.sampling.convolution.expected_seconds(
                self.estimates.layer_seconds(item.layer, item.batch_size, operation, self.device)
            )
            for operation in item.passes
        )

    def _known(self, architectures: Sequence[Architecture]) -> _Known:
        known = _Known()
        jobs_under_way = dict(
            BenchmarkJob.objects.exclude(state__in=BenchmarkJob.FINAL_STATES)
            .filter(machine__device=self.machine.device, engine=self.stack.engine.value)
            .values_list("pk", "machine_id")
        )
        self._add_timed(known, architectures, jobs_under_way)
        self._add_failed(known)
        self._add_under_way(known, jobs_under_way)
        return known

    def _add_timed(
        self,
        known: _Known,
        architectures: Sequence[Architecture],
        jobs_under_way: Iterable[uuid.UUID],
    ) -> None:
        # What a job under way has stored is in its plan as well, and counts there.
        jobs = list(jobs_under_way)
        layers = ArchitectureLayer.objects.filter(architecture__in=architectures).values("layer")
        layer_rows = (
            self._of_this_device(LayerTiming.objects.filter(layer__in=layers))
            .exclude(run__job__in=jobs)
            .values_list("layer__key", "batch_size", "operation")
            .annotate(timings=Count("id"))
            .order_by()
        )
        for key, batch_size, operation, timings in layer_rows:
            known.layers[key, batch_size, Pass(operation)] += timings
        iteration_rows = (
            self._of_this_stack(IterationTiming.objects.filter(run__machine=self.machine))
            .filter(architecture__in=architectures, optimizer=self.optimizer.value)
            .exclude(run__job__in=jobs)
            .values_list("architecture__slug", "architecture__image_size", "batch_size")
            .annotate(timings=Count("id"))
            .order_by()
        )
        for slug, image_size, batch_size, timings in iteration_rows:
            known.iterations[slug, image_size, batch_size] += timings

    def _add_failed(self, known: _Known) -> None:
        rows = (
            self._of_this_device(FailedTiming.objects.all())
            .values_list(
                "kind",
                "layer__key",
                "architecture__slug",
                "architecture__image_size",
                "batch_size",
            )
            .annotate(attempts=Count("id"))
            .order_by()
        )
        for kind, layer_key, slug, image_size, batch_size, attempts in rows:
            if kind not in LASTING_FAILURES and attempts < ATTEMPTS_AFTER_FAILURE:
                continue
            out_of_memory = kind == FailedTiming.Kind.OUT_OF_MEMORY
            if layer_key is not None:
                known.failed_layers.add((layer_key, batch_size))
                if out_of_memory:
                    _keep_smallest(known.smallest_layer_out_of_memory, layer_key, batch_size)
                continue
            known.failed_iterations.add((slug, image_size, batch_size))
            if out_of_memory:
                network = (slug, image_size)
                _keep_smallest(known.smallest_iteration_out_of_memory, network, batch_size)

    def _add_under_way(self, known: _Known, jobs_under_way: dict[uuid.UUID, int]) -> None:
        plans = BenchmarkJob.objects.filter(pk__in=jobs_under_way).values_list("machine_id", "plan")
        for machine_id, plan in plans:
            if plan.get("stack", {}).get("precision") != self.stack.precision.value:
                continue
            for item in plan["work"]:
                if item["kind"] == "convolution":
                    key = ConvolutionSpec(**item["layer"]).key
                    for operation in item["passes"]:
                        known.layers[key, item["batch_size"], Pass(operation)] += 1
                elif machine_id == self.machine.pk and item["optimizer"] == self.optimizer.value:
                    network = (item["architecture"], item["image_size"], item["batch_size"])
                    known.iterations[network] += 1

    def _measured_over_estimated(self, networks: dict[str, TracedNetwork]) -> float:
        """How much longer this machine's iterations took than estimated, 1 if none was timed."""
        rows = self._of_this_stack(
            IterationTiming.objects.filter(
                run__machine=self.machine, architecture__slug__in=networks
            )
        ).values_list(
            "architecture__slug", "architecture__image_size", "batch_size", "milliseconds"
        )
        ratios = [
            milliseconds
            / 1000
            / self.estimates.iteration_seconds(networks[slug], batch_size, self.device)
            for slug, image_size, batch_size, milliseconds in rows.order_by("-id")[
                :CALIBRATION_TIMINGS
            ]
            if networks[slug].image_size == image_size
        ]
        return statistics.median(ratios) if ratios else 1.0

    def _of_this_device(self, rows: QuerySet) -> QuerySet:
        return self._of_this_stack(rows.filter(run__machine__device=self.machine.device))

    def _of_this_stack(self, rows: QuerySet) -> QuerySet:
        return rows.filter(
            **{
                f"run__stack__{name}": getattr(self.stack, name)
                for name in SoftwareStack.SPEC_FIELDS
            }
        )


def _keep_smallest(limits: dict[_Key, int], key: _Key, batch_size: int) -> None:
    limits[key] = min(batch_size, limits.get(key, batch_size))


def passes_of_layers(network: TracedNetwork) -> dict[ConvolutionSpec, tuple[Pass, ...]]:
    """The passes that a network needs of each of its layers, in the order of first use."""
    passes: dict[ConvolutionSpec, set[Pass]] = {}
    for use in network.convolutions:
        passes.setdefault(use.layer, set()).update(use.passes)
    return {
        layer: tuple(operation for operation in Pass if operation in needed)
        for layer, needed in passes.items()
    }


def newest_usd_per_hour(machine: Machine) -> Decimal | None:
    """The newest price on demand, that of the machine's own region first."""
    prices = Price.objects.filter(machine=machine, kind=Price.Kind.ON_DEMAND).order_by(
        "-recorded_at", "-id"
    )
    price = prices.filter(region=machine.region).first() or prices.first()
    return None if price is None else price.usd_per_hour
