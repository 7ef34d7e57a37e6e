"""Published iterations joined with the traces of their networks and the devices they ran on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from benchmarking.specs import DeviceSpec, Optimizer, Precision, TracedNetwork
from regression.public_data.step_times import NetworkKey, StepTiming
from regression.step_calibration import Collection, StepContext, chip_of
from regression.step_rows import (
    PLAIN_SGD_TRAFFIC,
    ZERO_GRADIENT_TRAFFIC,
    IterationWork,
)
from regression.step_terms import network_terms
from regression.step_training import StepExample

_TOYS = frozenset({"LeNet5", "MNIST_CNN", "CIFAR10_CNN", "ResNetSmall", "AlexNet"})
"""PROFET's AlexNet has up to 838 million parameters and shares only its name with AlexNet."""

_PROFET_WEIGHT, _TOY_WEIGHT, _TINY_IMAGE_WEIGHT = 0.5, 0.4, 0.5
"""PROFET repeats twelve networks over sizes and batches, of which toys tell least."""

_PREFIX = re.compile(r"^(tf_|tv_|gluon_|ssl_|swsl_|ig_|legacy_|ens_adv_)")
_SUFFIX = re.compile(r"(_ns|_ap|_in21ft1k|_in22ft1k|_miil)$")


def build_examples(
    timings: Iterable[StepTiming],
    networks: Mapping[NetworkKey, TracedNetwork],
    devices: Mapping[str, DeviceSpec],
) -> list[StepExample]:
    """One example per timing of a traced network, in the timings' order.

    Half precision on chips without tensor cores is left out: autocast is no use there.
    """
    terms = {key: network_terms(network) for key, network in networks.items()}
    examples = []
    for timing in timings:
        if timing.network not in terms:
            continue
        device = devices[timing.device]
        if timing.precision is Precision.AMP and (device.compute_capability or 0.0) < 7.0:
            continue
        collection = Collection(timing.stack.split("-")[0])
        examples.append(
            StepExample(
                network=same_network(timing.network.name),
                family=networks[timing.network].family,
                terms=terms[timing.network],
                device=device,
                context=StepContext(
                    chip_of(device), timing.precision, collection, f"{timing.stack} {device.slug}"
                ),
                work=_work(timing, collection),
                batch_size=timing.batch_size,
                milliseconds=timing.milliseconds,
                weight=_weight(timing, collection),
            )
        )
    return examples


def same_network(name: str) -> str:
    """A name that all weights and publishers of one network share: they are left out together."""
    return _SUFFIX.sub("", _PREFIX.sub("", name.lower())).replace("_", "")


def is_toy(network: str) -> bool:
    """Whether a network by its shared name is one of PROFET's toys."""
    return network in {name.lower().replace("_", "") for name in _TOYS}


def _work(timing: StepTiming, collection: Collection) -> IterationWork:
    traffic = IterationWork.forecast(timing.precision, Optimizer.SGD).optimizer_traffic
    if collection is Collection.PROFET:
        traffic = PLAIN_SGD_TRAFFIC
    elif not timing.has_optimizer:
        traffic = ZERO_GRADIENT_TRAFFIC
    return IterationWork(
        optimizer_traffic=traffic,
        dispatches_optimizer=timing.has_optimizer,
        has_copy=timing.has_copy,
        has_casts=timing.precision is Precision.AMP and collection is Collection.TIMM,
    )


def _weight(timing: StepTiming, collection: Collection) -> float:
    weight = _PROFET_WEIGHT if collection is Collection.PROFET else 1.0
    if timing.network.name in _TOYS:
        weight *= _TOY_WEIGHT
    if timing.network.image_size <= 32:
        weight *= _TINY_IMAGE_WEIGHT
    return weight
