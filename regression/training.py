"""Fit the models of a machine to its timings, and store them with what they earn."""

from __future__ import annotations

import platform
from datetime import datetime
from importlib.metadata import version

import numpy as np
from django.db import transaction
from django.utils import timezone

from benchmarking.models import Architecture, Machine, SoftwareStack
from benchmarking.specs import DeviceKind, Optimizer
from regression.convolution import busy_ms_per_mega_multiply_add, complete_sums
from regression.device_layers import fit_device_layers
from regression.evaluation import Evaluation, evaluate
from regression.features import FeatureTable, feature_table
from regression.models import Evaluation as StoredEvaluation
from regression.models import TrainedModel
from regression.remainder import IterationModel
from regression.signals import models_trained
from regression.timings import count_timings, load_iterations, load_layer_times
from regression.trained import FittedModel, stored_fields
from regression.training_set import TrainingSet


class TrainingError(ValueError):
    """There is nothing to learn from; the message is one sentence."""


def load_training_set(machine: Machine, stack: SoftwareStack) -> TrainingSet:
    """Every iteration with SGD whose convolution layers were all timed at its batch size.

    Raises ``TrainingError`` where there is none.
    """
    layer_times = load_layer_times(device_id=machine.device_id, stack_id=stack.pk)
    iterations = load_iterations(machine_id=machine.pk, stack_id=stack.pk)
    architectures = (
        Architecture.objects.with_layers()
        .filter(pk__in={architecture for architecture, _, _ in iterations})
        .order_by("slug", "image_size")
    )
    tables, iteration_ms, runs_ms, networks = [], [], [], []
    for architecture in architectures:
        timings = {
            size: timing
            for (pk, size, optimizer), timing in iterations.items()
            if pk == architecture.pk and optimizer is Optimizer.SGD
        }
        network = architecture.to_spec()
        sums = complete_sums(network, timings, layer_times)
        if not sums:
            continue
        networks.append(network)
        tables.append(feature_table(network, sums))
        for each in sums:
            iteration_ms.append(timings[each.batch_size].milliseconds)
            runs_ms.append(timings[each.batch_size].runs)
    if not tables:
        raise TrainingError(
            f"{machine.slug} has no whole iteration whose convolution layers were all timed "
            f"with {stack}: measure with the benchmark command first"
        )
    return TrainingSet(
        kind=DeviceKind(machine.device.kind),
        table=FeatureTable.concatenate(tables),
        iteration_ms=np.array(iteration_ms),
        runs_ms=tuple(runs_ms),
        mega_multiply_add_ms=busy_ms_per_mega_multiply_add(networks, layer_times),
        traced=tuple(networks),
        layer_times=layer_times,
    )


def train(machine: Machine, stack: SoftwareStack) -> TrainedModel:
    """Fit, evaluate on left-out networks, store as the active model, and tell the floor above.

    The same data give the same model: an active one of the same data is left alone, but for the
    counts of timings. Raises ``TrainingError`` as :func:`load_training_set`.
    """
    layer_count, iteration_count = count_timings(
        device_id=machine.device_id, machine_id=machine.pk, stack_id=stack.pk
    )
    rows = load_training_set(machine, stack)
    counts = {"layer_timing_count": layer_count, "iteration_timing_count": iteration_count}
    same = TrainedModel.objects.filter(
        machine=machine, stack=stack, version=rows.version, is_active=True
    )
    if same.update(**counts):
        return same.get()
    evaluation = evaluate(rows)
    iterations = IterationModel(rows.kind)
    iterations.fit(rows.table, rows.iteration_ms, rows.mega_multiply_add_ms)
    layers = fit_device_layers(rows.traced, rows.layer_times)
    fitted = FittedModel(iterations, layers, evaluation.intervals)
    return store_model(machine, stack, fitted, evaluation, **counts)


def store_model(
    machine: Machine,
    stack: SoftwareStack,
    fitted: FittedModel,
    evaluation: Evaluation,
    *,
    layer_timing_count: int,
    iteration_timing_count: int,
) -> TrainedModel:
    """Store a fitted model as the active one of its machine and stack, with its report.

    Sends ``models_trained`` once that is committed.
    """
    rows = evaluation.training_set
    report = evaluation.report(
        machine=machine.slug, device=machine.device.slug, stack=stack.to_spec().label
    )
    with transaction.atomic():
        # Serializes trainings of one machine: its row stands for its models.
        Machine.objects.select_for_update().get(pk=machine.pk)
        TrainedModel.objects.filter(machine=machine, stack=stack, is_active=True).update(
            is_active=False
        )
        trained, _ = TrainedModel.objects.update_or_create(
            machine=machine,
            stack=stack,
            version=rows.version,
            defaults={
                "device": machine.device,
                "is_active": True,
                "trained_at": timezone.now(),
                "features": fitted.iterations.tree_feature_names(),
                "data_hash": rows.data_hash(),
                "networks": rows.networks,
                "points": len(rows.table),
                "library_versions": library_versions(),
                **stored_fields(fitted),
                "metrics": {
                    **report,
                    "by_cnn_mape": evaluation.by_network(),
                    "by_kind": evaluation.by_kind(),
                },
                "layer_timing_count": layer_timing_count,
                "iteration_timing_count": iteration_timing_count,
            },
        )
        store_report(machine, stack, rows.data_hash(), report, evaluation.points())
        transaction.on_commit(
            lambda: models_trained.send(
                sender=TrainedModel, device_id=machine.device_id, stack_id=stack.pk
            )
        )
    return trained


def store_report(
    machine: Machine,
    stack: SoftwareStack,
    data_hash: str,
    report: dict[str, object],
    points: list[dict[str, object]],
    evaluated_at: datetime | None = None,
) -> StoredEvaluation:
    """Keep the newest report of a machine and stack, with the points that it sums up.

    It was made now, unless ``evaluated_at`` says otherwise.
    """
    stored, _ = StoredEvaluation.objects.update_or_create(
        machine=machine,
        stack=stack,
        defaults={
            "data_hash": data_hash,
            "report": report,
            "points": points,
            "evaluated_at": evaluated_at or timezone.now(),
        },
    )
    return stored


def library_versions() -> dict[str, str]:
    """What a stored booster was made with."""
    versions = {name: version(name) for name in ("numpy", "scipy")}
    return {"python": platform.python_version(), "xgboost": version("xgboost-cpu"), **versions}
