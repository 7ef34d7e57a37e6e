"""Which timings a machine still lacks, in the order that makes stopping early hurt least.

A convolution timing is good for every machine with the same device and software stack; a whole
iteration only for its own machine. Work of other jobs under way counts as done.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from operator import attrgetter

from benchmarking.auxiliary_heads import has_auxiliary_heads
from benchmarking.catalogue.selectors import newest_price
from benchmarking.estimates import Estimates, current_estimates
from benchmarking.jobs.known import KnownTimings, of_stack
from benchmarking.models import (
    Architecture,
    IterationTiming,
    Machine,
    Price,
)
from benchmarking.probe.engines import can_time_layer, times_iterations
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
    Engine,
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
# The probe builds whole networks with torchvision, and with nothing else.
BUILDABLE_SOURCE = "torchvision"
SECONDS_PER_ITEM = 0.05
SECONDS_PER_NETWORK = 1.0
# DNNMark starts CUDA and cuDNN anew for a layer's forward and its backward passes.
SECONDS_PER_DNNMARK_LAYER = 8.0
CALIBRATION_TIMINGS = 200
# A sentence for each of more networks than these would bury the plan.
NETWORKS_NAMED = 5


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


@dataclass(frozen=True, slots=True)
class _Wanted:
    """An architecture that is to be measured, and what its timings are made of."""

    architecture: Architecture
    network: TracedNetwork
    auxiliary_heads: bool
    passes: Mapping[ConvolutionSpec, tuple[Pass, ...]]

    @classmethod
    def of(cls, architecture: Architecture) -> _Wanted:
        network = architecture.to_spec()
        heads = has_auxiliary_heads(architecture)
        return cls(architecture, network, heads, passes_of_layers(network))


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
        networks = [_Wanted.of(architecture) for architecture in architectures]
        known = KnownTimings(
            machine=self.machine,
            stack=self.stack,
            optimizer=self.optimizer,
            architectures=architectures,
        )
        scale = self._measured_over_estimated({one.network.slug: one.network for one in networks})
        usable = [self._usable_batch_sizes(one.network, batch_sizes) for one in networks]
        self._note_what_is_left_out(networks)
        work: list[Work] = []
        expected_seconds = 0.0
        already_measured = 0
        for round_number in range(1, rounds + 1):
            # A layer that several networks share is timed once a round.
            planned: set[tuple[str, int, Pass]] = set()
            for one, sizes in zip(networks, usable, strict=True):
                iterations: list[IterationWork] = []
                if self._can_time_iterations(one.architecture):
                    iterations, done = self._iteration_work(one, sizes, round_number, known)
                    already_measured += done
                layers, done = self._layer_work(one.passes, sizes, round_number, known, planned)
                already_measured += done
                work += iterations
                work += layers
                expected_seconds += scale * self._iterations_seconds(one.network, iterations)
                expected_seconds += SECONDS_PER_NETWORK * bool(iterations)
                expected_seconds += scale * self._layers_seconds(layers)
                if self.stack.engine is Engine.DNNMARK:
                    expected_seconds += SECONDS_PER_DNNMARK_LAYER * len(
                        {item.layer for item in layers}
                    )
        expected_seconds += SECONDS_PER_ITEM * len(work)
        if self.hopeless_count:
            self.left_out.append(
                f"{self.hopeless_count} timings failed here before (out of memory, or not "
                "supported) and are not tried again."
            )
        return MeasurementPlan(
            work=tuple(work),
            expected_seconds=expected_seconds,
            usd_per_hour=_usd_per_hour(self.machine),
            already_measured=already_measured,
            left_out=tuple(self.left_out),
        )

    def _can_time_iterations(self, architecture: Architecture) -> bool:
        return times_iterations(self.stack.engine) and architecture.source == BUILDABLE_SOURCE

    def _note_what_is_left_out(self, networks: Sequence[_Wanted]) -> None:
        engine = self.stack.engine
        if not times_iterations(engine):
            self.left_out.append(
                "DNNMark times layers and no whole iterations; use the torch engine for those."
            )
        self.left_out += [
            f"{one.architecture.slug} is no torchvision network: only its layers can be timed."
            for one in networks
            if times_iterations(engine) and one.architecture.source != BUILDABLE_SOURCE
        ]
        refused = {
            one.network.slug: {layer for layer in one.passes if not can_time_layer(engine, layer)}
            for one in networks
        }
        self.left_out += _sentences_about_refused(
            {slug: layers for slug, layers in refused.items() if layers}
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
        wanted: _Wanted,
        sizes: Iterable[int],
        round_number: int,
        known: KnownTimings,
    ) -> tuple[list[IterationWork], int]:
        network = wanted.network
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
                        auxiliary_heads=wanted.auxiliary_heads,
                        batch_size=size,
                        optimizer=self.optimizer,
                        round=round_number,
                    )
                )
        return work, done

    def _layer_work(
        self,
        passes_of_layers: Mapping[ConvolutionSpec, tuple[Pass, ...]],
        sizes: Sequence[int],
        round_number: int,
        known: KnownTimings,
        planned: set[tuple[str, int, Pass]],
    ) -> tuple[list[ConvolutionWork], int]:
        work: list[ConvolutionWork] = []
        done = 0
        for layer, passes in passes_of_layers.items():
            if not can_time_layer(self.stack.engine, layer):
                continue
            key = layer.key
            for size in sizes:
                wanted = [
                    operation for operation in passes if (key, size, operation) not in planned
                ]
                missing = tuple(
                    operation
                    for operation in wanted
                    if known.layers[key, size, operation] < round_number
                )
                planned.update((key, size, operation) for operation in wanted)
                done += len(wanted) - len(missing)
                if not missing:
                    continue
                if known.layer_is_hopeless(key, size):
                    self.hopeless_count += len(missing)
                    continue
                work.append(ConvolutionWork(layer, size, missing, round_number))
        return work, done

    def _iterations_seconds(self, network: TracedNetwork, items: Iterable[IterationWork]) -> float:
        sizes = [item.batch_size for item in items]
        seconds = self.estimates.iteration_seconds(network, sizes, self.device)
        return sum(map(self.sampling.iteration.expected_seconds, seconds))

    def _layers_seconds(self, items: Iterable[ConvolutionWork]) -> float:
        """Of work that comes layer by layer."""
        total = 0.0
        for layer, items_of_layer in groupby(items, key=attrgetter("layer")):
            sizes: dict[Pass, list[int]] = defaultdict(list)
            for item in items_of_layer:
                for operation in item.passes:
                    sizes[operation].append(item.batch_size)
            for operation, batch_sizes in sizes.items():
                seconds = self.estimates.layer_seconds(layer, batch_sizes, operation, self.device)
                total += sum(map(self.sampling.convolution.expected_seconds, seconds))
        return total

    def _measured_over_estimated(self, networks: dict[str, TracedNetwork]) -> float:
        """How much longer this machine's iterations took than estimated, 1 if none was timed."""
        rows = of_stack(
            IterationTiming.objects.filter(
                run__machine=self.machine, architecture__slug__in=networks
            ),
            self.stack,
        ).values_list(
            "architecture__slug", "architecture__image_size", "batch_size", "milliseconds"
        )
        timed: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for slug, image_size, batch_size, milliseconds in rows.order_by("-id")[
            :CALIBRATION_TIMINGS
        ]:
            if networks[slug].image_size == image_size:
                timed[slug].append((batch_size, milliseconds))
        ratios: list[float] = []
        for slug, points in timed.items():
            sizes = [batch_size for batch_size, _ in points]
            estimated = self.estimates.iteration_seconds(networks[slug], sizes, self.device)
            ratios += [
                milliseconds / 1000 / seconds
                for (_, milliseconds), seconds in zip(points, estimated, strict=True)
            ]
        return statistics.median(ratios) if ratios else 1.0


def _sentences_about_refused(layers: dict[str, set[ConvolutionSpec]]) -> list[str]:
    """Why layers are left out, network by network unless these are many."""
    if len(layers) > NETWORKS_NAMED:
        counts = {f"{len(layers)} networks": len(set[ConvolutionSpec]().union(*layers.values()))}
    else:
        counts = {slug: len(refused) for slug, refused in layers.items()}
    return [
        f"{count} {'layer' if count == 1 else 'layers'} of {whose} "
        f"{'is' if count == 1 else 'are'} grouped or dilated: DNNMark cannot time "
        f"{'it' if count == 1 else 'them'}; use the torch engine."
        for whose, count in counts.items()
    ]


def passes_of_layers(network: TracedNetwork) -> dict[ConvolutionSpec, tuple[Pass, ...]]:
    """The passes that a network needs of each of its layers, in the order of first use."""
    passes: dict[ConvolutionSpec, set[Pass]] = {}
    for use in network.convolutions:
        passes.setdefault(use.layer, set()).update(use.passes)
    return {
        layer: tuple(operation for operation in Pass if operation in needed)
        for layer, needed in passes.items()
    }


def _usd_per_hour(machine: Machine) -> Decimal | None:
    """The price on demand in the machine's own region, as forecasts choose it."""
    price = newest_price(machine, Price.Kind.ON_DEMAND, machine.region)
    return None if price is None else price.usd_per_hour
