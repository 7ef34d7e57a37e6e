"""The networks that published iteration times are about, traced.

Needs torch, torchvision and timm, which are imported when tracing starts. A trace takes about a
second; those of a whole training are kept in memory only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarking.specs import FLOAT32_BYTES, OperationSpec, Phase, TracedNetwork
from benchmarking.tracing.fixture import dump_traced_networks, load_traced_networks
from regression.public_data.step_times import NetworkKey

if TYPE_CHECKING:
    from benchmarking.tracing.tracer import NetworkTracer

_WEIGHT_PENALTY = frozenset({"ResNet18", "ResNet50"})
"""PROFET's Keras networks whose every convolution has an L2 penalty in the loss."""


def trace_published_networks(
    keys: Iterable[NetworkKey], report: Callable[[str], None] = lambda line: None
) -> dict[NetworkKey, TracedNetwork]:
    """Trace the networks; what cannot be traced is left out and ``report`` is told why."""
    from benchmarking.tracing.errors import UntraceableError

    networks: dict[NetworkKey, TracedNetwork] = {}
    tracers: dict[tuple[str, str], NetworkTracer | None] = {}
    for key in sorted(set(keys)):
        try:
            # A Keras classifier is built for one image size, the others fit several.
            name = (key.collection, f"{key.name} {key.image_size * (key.collection == 'keras')}")
            if name not in tracers:
                tracers[name] = _tracer(key)
            tracer = tracers[name]
            if tracer is None:
                continue
            network = tracer.trace(key.image_size)
        except (UntraceableError, ValueError) as error:
            report(f"left out {key.collection} {key.name} at {key.image_size} px: {error}")
            continue
        if key.collection == "keras" and key.name in _WEIGHT_PENALTY:
            network = with_weight_penalty(network)
        networks[key] = network
    return networks


def trace_slug(key: NetworkKey) -> str:
    """Name that a published network's trace carries."""
    return f"{key.collection}-{key.name}".lower()


def tracing_versions() -> dict[str, str]:
    """Versions of what defines and traces the networks."""
    return {name: version(name) for name in ("torch", "torchvision", "timm")}


def read_traces(path: Path, keys: Iterable[NetworkKey]) -> dict[NetworkKey, TracedNetwork]:
    """Traces that were kept in a file, by the networks asked for; needs no torch."""
    stored = {(each.slug, each.image_size): each for each in load_traced_networks(path)}
    found = {key: stored.get((trace_slug(key), key.image_size)) for key in set(keys)}
    return {key: network for key, network in sorted(found.items()) if network is not None}


def write_traces(path: Path, networks: Mapping[NetworkKey, TracedNetwork]) -> None:
    """Keep traces in a file for later trainings."""
    dump_traced_networks(networks.values(), path, source="published", versions=tracing_versions())


def with_weight_penalty(network: TracedNetwork) -> TracedNetwork:
    """The network with an L2 penalty of every convolution's weights in its loss.

    Forward squares, sums, scales and adds; backward scales twice and adds to the gradient.
    """
    layers = sum(use.count for use in network.convolutions)
    weights = float(
        FLOAT32_BYTES * sum(use.layer.weight_elements * use.count for use in network.convolutions)
    )
    penalty = (
        OperationSpec("pow", Phase.FORWARD, layers, 0.0, 2.0 * weights),
        OperationSpec("sum", Phase.FORWARD, layers, 0.0, weights),
        OperationSpec("mul", Phase.FORWARD, layers, 0.0, 0.0),
        OperationSpec("add", Phase.FORWARD, layers, 0.0, 0.0),
        OperationSpec("mul", Phase.BACKWARD, 2 * layers, 0.0, 2.0 * weights),
        OperationSpec("add", Phase.BACKWARD, layers, 0.0, 3.0 * weights),
        OperationSpec("expand", Phase.BACKWARD, layers, 0.0, 0.0),
    )
    return dataclasses.replace(network, operations=network.operations + penalty)


def _tracer(key: NetworkKey) -> NetworkTracer | None:
    """A tracer of the network, or ``None`` when its kind is not covered."""
    from benchmarking.tracing.keras_networks import KERAS_FAMILIES, build_keras_network
    from benchmarking.tracing.timm_networks import build_timm_network, family_of
    from benchmarking.tracing.torchvision_source import TorchvisionSource
    from benchmarking.tracing.tracer import NetworkTracer

    if key.collection == "keras":
        return NetworkTracer(
            lambda: build_keras_network(key.name, key.image_size),
            slug=trace_slug(key),
            family=KERAS_FAMILIES.get(key.name, "other"),
        )
    if key.collection == "timm":
        family = family_of(key.name)
        if family is None:
            return None
        return NetworkTracer(
            lambda: build_timm_network(key.name), slug=trace_slug(key), family=family
        )
    published = {each.slug: each for each in TorchvisionSource().networks()}
    if key.name not in published:
        raise ValueError(f"the installed torchvision has no {key.name}")
    network = published[key.name]
    return NetworkTracer(network.build, slug=trace_slug(key), family=network.family)
