"""What is measured already, on its way, or not worth another attempt: what a plan leaves out."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from django.db.models import Count, QuerySet

from benchmarking.models import (
    Architecture,
    ArchitectureLayer,
    BenchmarkJob,
    FailedTiming,
    IterationTiming,
    LayerTiming,
    Machine,
    SoftwareStack,
)
from benchmarking.specs import ConvolutionSpec, Optimizer, Pass, StackSpec

# These will not go better next time.
LASTING_FAILURES = (
    FailedTiming.Kind.OUT_OF_MEMORY,
    FailedTiming.Kind.UNTRAINABLE,
    FailedTiming.Kind.UNSUPPORTED,
)
ATTEMPTS_AFTER_FAILURE = 3

_Key = TypeVar("_Key", bound=Hashable)


class KnownTimings:
    """The timings and failures of one machine, stack and optimizer, read in five queries.

    Attributes
    ----------
    layers
        Timings by layer key, batch size and pass, of every machine with the same device.
    iterations
        Timings by slug, image size and batch size, of this machine.
    """

    def __init__(
        self,
        *,
        machine: Machine,
        stack: StackSpec,
        optimizer: Optimizer,
        architectures: Sequence[Architecture],
    ) -> None:
        self.layers: Counter[tuple[str, int, Pass]] = Counter()
        self.iterations: Counter[tuple[str, int, int]] = Counter()
        self._machine = machine
        self._stack = stack
        self._optimizer = optimizer
        self._failed_layers: set[tuple[str, int]] = set()
        self._failed_iterations: set[tuple[str, int, int]] = set()
        self._layer_limits: dict[str, int] = {}
        self._iteration_limits: dict[tuple[str, int], int] = {}
        jobs_under_way = dict(
            BenchmarkJob.objects.exclude(state__in=BenchmarkJob.FINAL_STATES)
            .filter(machine__device=machine.device, engine=stack.engine.value)
            .values_list("pk", "machine_id")
        )
        self._add_timed(architectures, jobs_under_way)
        self._add_failed()
        self._add_under_way(jobs_under_way)

    def layer_is_hopeless(self, key: str, batch_size: int) -> bool:
        """Whether it failed for good, or ran out of memory with as many examples or fewer."""
        limit = self._layer_limits.get(key)
        failed = (key, batch_size) in self._failed_layers
        return failed or (limit is not None and batch_size >= limit)

    def iteration_is_hopeless(self, slug: str, image_size: int, batch_size: int) -> bool:
        """Whether it failed for good, or ran out of memory with as many examples or fewer."""
        limit = self._iteration_limits.get((slug, image_size))
        failed = (slug, image_size, batch_size) in self._failed_iterations
        return failed or (limit is not None and batch_size >= limit)

    def _add_timed(
        self, architectures: Sequence[Architecture], jobs_under_way: Iterable[uuid.UUID]
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
            self.layers[key, batch_size, Pass(operation)] += timings
        iteration_rows = (
            of_stack(IterationTiming.objects.filter(run__machine=self._machine), self._stack)
            .filter(architecture__in=architectures, optimizer=self._optimizer.value)
            .exclude(run__job__in=jobs)
            .values_list("architecture__slug", "architecture__image_size", "batch_size")
            .annotate(timings=Count("id"))
            .order_by()
        )
        for slug, image_size, batch_size, timings in iteration_rows:
            self.iterations[slug, image_size, batch_size] += timings

    def _add_failed(self) -> None:
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
                self._failed_layers.add((layer_key, batch_size))
                if out_of_memory:
                    _keep_smallest(self._layer_limits, layer_key, batch_size)
                continue
            self._failed_iterations.add((slug, image_size, batch_size))
            if out_of_memory:
                _keep_smallest(self._iteration_limits, (slug, image_size), batch_size)

    def _add_under_way(self, jobs_under_way: dict[uuid.UUID, int]) -> None:
        plans = BenchmarkJob.objects.filter(pk__in=jobs_under_way).values_list("machine_id", "plan")
        for machine_id, plan in plans:
            if plan.get("stack", {}).get("precision") != self._stack.precision.value:
                continue
            for item in plan["work"]:
                if item["kind"] == "convolution":
                    key = ConvolutionSpec(**item["layer"]).key
                    for operation in item["passes"]:
                        self.layers[key, item["batch_size"], Pass(operation)] += 1
                elif machine_id == self._machine.pk and item["optimizer"] == self._optimizer.value:
                    network = (item["architecture"], item["image_size"], item["batch_size"])
                    self.iterations[network] += 1

    def _of_this_device(self, rows: QuerySet) -> QuerySet:
        return of_stack(rows.filter(run__machine__device=self._machine.device), self._stack)


def of_stack(rows: QuerySet, stack: StackSpec) -> QuerySet:
    """The timings or failures among ``rows`` that were taken with ``stack``."""
    return rows.filter(
        **{f"run__stack__{name}": getattr(stack, name) for name in SoftwareStack.SPEC_FIELDS}
    )


def _keep_smallest(limits: dict[_Key, int], key: _Key, batch_size: int) -> None:
    limits[key] = min(batch_size, limits.get(key, batch_size))
