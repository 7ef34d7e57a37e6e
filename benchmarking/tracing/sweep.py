"""Traces many networks at many image sizes, a network per task, in several processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

import torch

from benchmarking.specs import TracedNetwork
from benchmarking.tracing.errors import UntraceableError
from benchmarking.tracing.source import TraceableNetwork
from benchmarking.tracing.sources import load_source
from benchmarking.tracing.tracer import NetworkTracer

IMAGE_SIZES = (32, 64, 96, 128, 160, 192, 224, 256, 288, 299, 320, 384, 448, 512)


@dataclass(frozen=True, slots=True)
class SkippedSize:
    """An image size that a network does not accept, with the reason in one sentence."""

    slug: str
    image_size: int
    reason: str


@dataclass(frozen=True, slots=True)
class NetworkTraces:
    """One network at every size asked for."""

    slug: str
    traced: tuple[TracedNetwork, ...]
    skipped: tuple[SkippedSize, ...]


def usual_image_sizes(network: TraceableNetwork) -> tuple[int, ...]:
    """The sizes that a network is traced at unless told otherwise: usual ones and its own."""
    return tuple(sorted({*IMAGE_SIZES, network.published_image_size}))


def trace_sizes(network: TraceableNetwork, image_sizes: Iterable[int]) -> NetworkTraces:
    """Trace one network at several sizes; the module is built once."""
    tracer = NetworkTracer(
        network.build,
        slug=network.slug,
        family=network.family,
        auxiliary_weight=network.auxiliary_weight,
        factory_without_heads=network.build_without_heads,
    )
    traced = []
    skipped = []
    for image_size in image_sizes:
        try:
            traced.append(tracer.trace(image_size))
        except UntraceableError as error:
            skipped.append(SkippedSize(network.slug, image_size, str(error)))
    return NetworkTraces(network.slug, tuple(traced), tuple(skipped))


def trace_source(
    source_name: str,
    *,
    slugs: Sequence[str] | None = None,
    image_sizes: Sequence[int] | None = None,
    processes: int | None = None,
    on_network: Callable[[NetworkTraces], None] = lambda _: None,
) -> list[NetworkTraces]:
    """Trace the networks of a source.

    Parameters
    ----------
    source_name
        A key of ``sources.SOURCES``.
    slugs
        Which networks; all by default.
    image_sizes
        Sizes in pixels; :func:`usual_image_sizes` of each network by default.
    processes
        Worker processes of one thread each; as many as this process may use by default.
    on_network
        Called in this process whenever a network is done, in the order of finishing.

    Returns
    -------
    The traces sorted by slug.
    """
    networks = load_source(source_name).networks()
    tasks = [
        (source_name, network.slug, tuple(image_sizes or usual_image_sizes(network)))
        for network in networks
        if slugs is None or network.slug in slugs
    ]
    if processes is None:
        processes = len(os.sched_getaffinity(0))
    done = []
    for traces in _run(tasks, min(processes, len(tasks))):
        on_network(traces)
        done.append(traces)
    return sorted(done, key=lambda traces: traces.slug)


_Task = tuple[str, str, tuple[int, ...]]


def _run(tasks: Sequence[_Task], processes: int) -> Iterator[NetworkTraces]:
    if processes <= 1:
        yield from map(_trace_task, tasks)
        return
    # Spawned, because a forked process inherits torch's thread pools without their threads.
    with ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=torch.set_num_threads,
        initargs=(1,),
    ) as pool:
        for future in as_completed([pool.submit(_trace_task, task) for task in tasks]):
            yield future.result()


def _trace_task(task: _Task) -> NetworkTraces:
    source_name, slug, image_sizes = task
    network = next(item for item in load_source(source_name).networks() if item.slug == slug)
    return trace_sizes(network, image_sizes)
