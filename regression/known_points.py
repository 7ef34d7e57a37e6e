"""Iteration times that follow from timings of the device: measured, regressed, and between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarking.models import Machine
from benchmarking.specs import Optimizer, TracedNetwork
from regression.answers import Answer, Place
from regression.batch_curve import anchor
from regression.convolution import ConvolutionSum, LayerTimes, complete_sums, sum_convolutions
from regression.device_layers import missing_times
from regression.features import ADAMW_TRAFFIC, feature_table
from regression.intervals import ErrorKind, IntervalModel
from regression.iteration_points import IterationPoint, complete_points, join_notes
from regression.models import TrainedModel
from regression.remainder import IterationModel
from regression.selection import choose_model, choose_stack
from regression.sources import Source
from regression.timings import PooledTiming, load_iterations, recall_layer_times
from regression.trained import FittedModel, load_fitted


def answer_from_timings(
    architecture_id: int, network: TracedNetwork, place: Place, wanted: Collection[int]
) -> Answer:
    """The points at ``wanted`` batch sizes that one software stack's timings give.

    Without timings, or with layers that have none, there are no points and a refusal.
    """
    device, machine, precision = place.device, place.machine, place.precision
    stack = choose_stack(device=device, machine=machine, precision=precision)
    if stack is None:
        layers = len(network.convolutions)
        return Answer(
            refusal=f"Not covered: {layers} of {layers} convolution layers have no timings "
            f"on {device.slug} in {precision}."
        )
    layer_times = recall_layer_times(
        device_id=device.pk, stack_id=stack.pk, architecture_id=architecture_id
    )
    iterations = (
        load_iterations(machine_id=machine.pk, stack_id=stack.pk, architecture_id=architecture_id)
        if machine is not None
        else {}
    )
    trained = choose_model(device=device, machine=machine, stack=stack)
    fitted = load_fitted(trained) if trained else None
    intervals = fitted.intervals if fitted else IntervalModel()
    measured = {
        size: _measured_point(network, size, timing, intervals)
        for (_, size, optimizer), timing in iterations.items()
        if optimizer is place.optimizer
    }
    regressed: Mapping[int, IterationPoint] = {}
    sums = _convolution_sums(network, layer_times, fitted)
    if trained is not None and fitted is not None and sums:
        measured_sgd = {
            size: timing
            for (_, size, optimizer), timing in iterations.items()
            if optimizer is Optimizer.SGD
        }
        regressed = _regressed_points(network, sums, fitted, measured_sgd, place.optimizer)
        regressed = _with_notes(regressed, _model_notes(trained, machine))
        measured = {size: _bound_like(measured[size], regressed.get(size)) for size in measured}
    points = complete_points([*{**regressed, **measured}.values()], wanted, intervals, network.slug)
    if not points:
        return Answer(refusal=_refusal(network, device.slug, layer_times, trained))
    return Answer(points, stack.to_spec().label, trained.version if trained else "")


def _convolution_sums(
    network: TracedNetwork, layer_times: LayerTimes, fitted: FittedModel | None
) -> list[ConvolutionSum]:
    """Complete sums where there are any, else sums whose gaps the device's other layers fill."""
    timed = {size for _, size, _ in layer_times if size >= network.minimum_batch_size}
    sums = complete_sums(network, timed, layer_times)
    if sums or fitted is None or fitted.layers is None:
        return sums
    sizes = [size for size in fitted.layers.batch_sizes_ if size >= network.minimum_batch_size]
    estimates = missing_times(network, sizes, layer_times, fitted.layers)
    return [
        sum_convolutions(
            network, size, layer_times, lambda layer, b, each: estimates[layer, b, each]
        )
        for size in sizes
    ]


def _refusal(
    network: TracedNetwork,
    device_slug: str,
    layer_times: LayerTimes,
    trained: TrainedModel | None,
) -> str:
    sizes = sorted({size for _, size, _ in layer_times}) or [1]
    lacking = min(sum_convolutions(network, size, layer_times).missing_layers for size in sizes)
    if lacking:
        return (
            f"Not covered: {lacking} of {len(network.convolutions)} convolution layers "
            f"have no timings on {device_slug}."
        )
    if trained is None:
        return f"Not covered: no whole iterations were timed on {device_slug} to learn from."
    return f"Not covered: no iterations of this network were timed on {device_slug}."


def _measured_point(
    network: TracedNetwork, size: int, timing: PooledTiming, intervals: IntervalModel
) -> IterationPoint:
    return IterationPoint(
        size,
        timing.milliseconds,
        intervals.half_width(ErrorKind.RUN, network.slug),
        Source.MEASURED,
        measured_share=1.0,
    )


def _bound_like(point: IterationPoint, model: IterationPoint | None) -> IterationPoint:
    """A clock cannot tell host from device: the measured point takes the model's word."""
    return replace(point, bound_by=model.bound_by) if model is not None else point


def _regressed_points(
    network: TracedNetwork,
    sums: Sequence[ConvolutionSum],
    fitted: FittedModel,
    measured_sgd: Mapping[int, PooledTiming],
    optimizer: Optimizer,
) -> dict[int, IterationPoint]:
    model, intervals = fitted.iterations, fitted.intervals
    table = feature_table(network, sums)
    sizes, plain_ms = table.batch_sizes, model.predict(table)
    milliseconds, kind = plain_ms, ErrorKind.REGRESSED
    both = np.array([int(size) in measured_sgd for size in sizes])
    if both.any():
        measured_ms = np.array([measured_sgd[int(size)].milliseconds for size in sizes[both]])
        milliseconds = anchor(sizes, plain_ms, sizes[both], measured_ms, plain_ms[both])
        kind = ErrorKind.ANCHORED
    estimated_shares = np.array([1 - each.measured_share for each in sums])
    widths = np.hypot(
        intervals.half_width(kind, network.slug),
        estimated_shares * intervals.half_width(ErrorKind.LAYERS, network.slug),
    )
    source, note = Source.REGRESSED, None
    if not all(each.is_complete for each in sums):
        lacking = max(each.missing_layers for each in sums)
        source = Source.ESTIMATED
        note = (
            f"{lacking} of {len(network.convolutions)} convolution layers are estimated from "
            "other layers timed on this device."
        )
    if optimizer is not Optimizer.SGD:
        ratios = model.predict(feature_table(network, sums, optimizer)) / plain_ms
        milliseconds = milliseconds * ratios
        # Nobody timed this optimizer: what it adds is believed to half of itself.
        widths = np.hypot(widths, np.log(ratios) / 2)
        source = Source.ESTIMATED
        note = join_notes(
            note,
            f"Learnt with sgd: the step of {optimizer} is taken to move "
            f"{ADAMW_TRAFFIC:.1f} times its bytes.",
        )
    host_bound = model.is_host_bound(table)
    return {
        each.batch_size: IterationPoint(
            each.batch_size,
            float(milliseconds[position]),
            float(widths[position]),
            source,
            each.measured_share,
            "host" if host_bound[position] else "device",
            note,
        )
        for position, each in enumerate(sums)
    }


def _model_notes(trained: TrainedModel, machine: Machine | None) -> list[str]:
    notes = []
    if machine is not None and trained.machine_id != machine.pk:
        notes.append(f"The remainder was learnt on {trained.machine.slug}.")
    if trained.networks < IterationModel.FEWEST_NETWORKS:
        plural = "" if trained.networks == 1 else "s"
        notes.append(f"The remainder was learnt from {trained.networks} CNN{plural} only.")
    return notes


def _with_notes(
    points: Mapping[int, IterationPoint], notes: Sequence[str]
) -> dict[int, IterationPoint]:
    return {
        size: replace(point, note=join_notes(point.note, *notes)) for size, point in points.items()
    }
