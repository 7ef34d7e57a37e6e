"""Training from stored timings, and what is stored of it."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarking.models import Machine
from benchmarking.specs import DeviceKind, Optimizer
from benchmarking.tests.factories import (
    create_cpu_machine,
    create_iteration_timing,
    create_run,
    create_stack,
)
from regression.models import Evaluation, TrainedModel
from regression.remainder import IterationModel
from regression.signals import models_trained
from regression.tests.builders import (
    measure_network,
    measured_machine,
    store_network,
    true_ms,
)
from regression.tests.synthetic import BATCH_SIZES, make_network, make_networks
from regression.trained import load_fitted
from regression.training import TrainingError, load_training_set, train

pytestmark = pytest.mark.django_db

NETWORKS = make_networks(3)


@pytest.fixture
def machine() -> Machine:
    return measured_machine(NETWORKS, runs=2)


def test_the_training_set_holds_every_network_and_batch_size(machine: Machine) -> None:
    rows = load_training_set(machine, create_stack())
    assert rows.kind is DeviceKind.CPU
    assert rows.table.architectures.tolist() == [n.slug for n in NETWORKS for _ in BATCH_SIZES]
    assert rows.table.batch_sizes.tolist() == list(BATCH_SIZES) * 3
    expected = [1.01 * ms for network in NETWORKS for ms in true_ms(network, BATCH_SIZES)]
    assert rows.iteration_ms == pytest.approx(expected)
    assert {len(runs) for runs in rows.runs_ms} == {2}


def test_iterations_without_all_layers_or_with_another_optimizer_are_left_out(
    machine: Machine,
) -> None:
    run = machine.runs.first()
    net = store_network(make_network("bare", seed=50))
    create_iteration_timing(run=run, architecture=net)
    known = run.iteration_timings.first().architecture
    create_iteration_timing(
        run=run, architecture=known, optimizer=Optimizer.ADAMW, samples_ms=[9e9]
    )
    create_iteration_timing(run=run, architecture=known, batch_size=64, samples_ms=[9e9])
    rows = load_training_set(machine, create_stack())
    assert len(rows.table) == 3 * len(BATCH_SIZES)
    assert rows.iteration_ms.max() < 9e9


def test_loading_takes_the_same_queries_for_more_networks(
    machine: Machine, django_assert_num_queries
) -> None:
    stack, run = create_stack(), machine.runs.first()
    for seed in (60, 61):
        network = make_network(f"more{seed}", seed=seed)
        measure_network(run, store_network(network), network)
    with django_assert_num_queries(4):
        load_training_set(machine, stack)


def test_what_is_stored(machine: Machine) -> None:
    trained = train(machine, create_stack())
    assert TrainedModel.objects.get() == trained
    assert trained.is_active
    assert (trained.networks, trained.points) == (3, 12)
    assert trained.device == machine.device
    assert trained.iteration_timing_count == 24
    assert trained.layer_timing_count == machine.runs.first().layer_timings.count() * 2
    assert trained.version.startswith("1-") and trained.data_hash.startswith(trained.version[2:])
    assert set(trained.library_versions) == {"python", "xgboost", "numpy", "scipy"}
    assert trained.features[0] == "log_batch_size"
    assert trained.metrics["cnns"] == 3
    assert set(trained.metrics["by_cnn_mape"]) == {"net00", "net01", "net02"}
    stored = Evaluation.objects.get()
    assert stored.report["machine"] == machine.slug
    assert stored.report["points"] == len(stored.points) == 12
    assert [each["architecture"] for each in stored.points[::4]] == ["net00", "net01", "net02"]


def test_the_stored_model_forecasts_as_the_fitted_one(machine: Machine) -> None:
    rows = load_training_set(machine, create_stack())
    fitted = IterationModel(rows.kind).fit(rows.table, rows.iteration_ms, rows.mega_multiply_add_ms)
    loaded = load_fitted(train(machine, create_stack())).iterations
    assert loaded.predict(rows.table) == pytest.approx(fitted.predict(rows.table))


def test_the_same_data_train_nothing(machine: Machine, monkeypatch) -> None:
    first = train(machine, create_stack())
    monkeypatch.setattr("regression.training.evaluate", None)
    assert train(machine, create_stack()) == first
    assert TrainedModel.objects.count() == 1


def test_new_data_make_a_new_active_model(machine: Machine) -> None:
    first = train(machine, create_stack())
    network = make_network("another", seed=70)
    measure_network(machine.runs.first(), store_network(network), network)
    second = train(machine, create_stack())
    first.refresh_from_db()
    assert second.pk != first.pk
    assert (first.is_active, second.is_active) == (False, True)
    assert second.version != first.version
    assert Evaluation.objects.get().report["cnns"] == 4


def test_the_floor_above_hears_of_it(machine: Machine, django_capture_on_commit_callbacks) -> None:
    heard = []

    def listen(sender, **news) -> None:
        heard.append((news["device_id"], news["stack_id"]))

    models_trained.connect(listen)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            train(machine, create_stack())
            assert heard == []
    finally:
        models_trained.disconnect(listen)
    assert heard == [(machine.device_id, create_stack().pk)]


def test_iterations_alone_are_nothing_to_learn_from() -> None:
    machine = create_cpu_machine()
    run = create_run(machine=machine)
    create_iteration_timing(run=run, architecture=store_network(NETWORKS[0]))
    with pytest.raises(TrainingError, match="local has no whole iteration whose convolution"):
        train(machine, create_stack())
    assert not TrainedModel.objects.exists()


def test_intervals_are_those_of_left_out_networks(machine: Machine) -> None:
    trained = train(machine, create_stack())
    errors = trained.interval_errors
    assert set(errors["regressed"]) == {"net00", "net01", "net02"}
    assert all(len(values) == len(BATCH_SIZES) for values in errors["regressed"].values())
    runs = np.array([value for values in errors["run"].values() for value in values])
    assert np.abs(runs) == pytest.approx(np.log(1.01), abs=1e-4)
