"""New timings train again: once they stop coming, and after a lost message too."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from kombu.exceptions import OperationalError

from benchmarking.models import Machine
from benchmarking.signals import timings_stored
from benchmarking.tests.factories import (
    create_cpu_machine,
    create_iteration_timing,
    create_machine,
    create_run,
)
from regression import tasks
from regression.models import TrainedModel
from regression.retraining import (
    QUIET_SECONDS,
    count_machine_timings,
    retrain_after_quiet,
    retrain_outdated,
)
from regression.tests.builders import (
    measure_network,
    measured_machine,
    store_layer_timings,
    store_network,
)
from regression.tests.synthetic import make_network, make_networks

pytestmark = pytest.mark.django_db

NETWORKS = make_networks(2)


@pytest.fixture
def machine() -> Machine:
    return measured_machine(NETWORKS)


@pytest.fixture
def sent(monkeypatch) -> list[tuple[tuple[int, int], float]]:
    """The messages that would have gone to the broker."""
    messages: list[tuple[tuple[int, int], float]] = []
    monkeypatch.setattr(
        tasks.retrain_machine,
        "apply_async",
        lambda arguments, countdown: messages.append((arguments, countdown)),
    )
    return messages


def test_stored_timings_ask_for_training_after_a_quiet_while(
    machine: Machine, sent, django_capture_on_commit_callbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        timings_stored.send(sender=None, machine_id=machine.pk)
        assert sent == []
    assert sent == [((machine.pk, count_machine_timings(machine.pk)), QUIET_SECONDS)]


def test_only_the_last_of_many_messages_trains(machine: Machine) -> None:
    early = count_machine_timings(machine.pk)
    run = machine.runs.first()
    network = make_network("late", seed=40)
    measure_network(run, store_network(network), network)
    assert retrain_after_quiet(machine.pk, early) == 0
    assert not TrainedModel.objects.exists()
    tasks.retrain_machine(machine.pk, count_machine_timings(machine.pk))
    assert TrainedModel.objects.get().networks == 3


def test_without_a_broker_timings_are_stored_all_the_same(
    machine: Machine, monkeypatch, django_capture_on_commit_callbacks, caplog
) -> None:
    def refuse(*args, **kwargs) -> None:
        raise OperationalError("no broker")

    monkeypatch.setattr(tasks.retrain_machine, "apply_async", refuse)
    with django_capture_on_commit_callbacks(execute=True):
        timings_stored.send(sender=None, machine_id=machine.pk)
    assert "could not be queued" in caplog.text


def test_the_sweep_finds_what_a_lost_message_left(machine: Machine) -> None:
    tasks.sweep_models()
    first = TrainedModel.objects.get()
    tasks.sweep_models()
    assert TrainedModel.objects.get().trained_at == first.trained_at
    network = make_network("late", seed=40)
    measure_network(machine.runs.first(), store_network(network), network)
    tasks.sweep_models()
    assert TrainedModel.objects.get(is_active=True).networks == 3


def test_timings_that_teach_nothing_new_only_move_the_counts(machine: Machine) -> None:
    assert retrain_outdated() == 1
    before = TrainedModel.objects.get()
    store_layer_timings(machine.runs.first(), make_network("layers-only", seed=41))
    retrain_outdated()
    after = TrainedModel.objects.get()
    assert after.trained_at == before.trained_at
    assert after.layer_timing_count > before.layer_timing_count


def test_layer_timings_of_a_twin_train_this_machine_again(machine: Machine) -> None:
    retrain_outdated()
    twin = create_machine(device=machine.device)
    store_layer_timings(create_run(machine=twin), NETWORKS[0])
    assert retrain_outdated(twin) == 1
    assert retrain_outdated(create_cpu_machine(slug="unrelated")) == 0


def test_a_machine_that_cannot_be_trained_does_not_stop_the_others(machine: Machine) -> None:
    bare = create_cpu_machine(slug="bare")
    create_iteration_timing(
        run=create_run(machine=bare), architecture=store_network(make_network("x", seed=9))
    )
    assert retrain_outdated() == 1
    assert TrainedModel.objects.get().machine == machine


def test_a_machine_that_is_gone_is_no_error() -> None:
    assert retrain_after_quiet(123456, 0) == 0


def test_the_admin_shows_models_and_changes_none(machine: Machine, client) -> None:
    retrain_outdated()
    client.force_login(get_user_model().objects.create_superuser("admin", password="x"))
    trained = TrainedModel.objects.get()
    page = client.get("/admin/regression/trainedmodel/")
    assert trained.version in page.content.decode()
    detail = client.get(f"/admin/regression/trainedmodel/{trained.pk}/change/")
    assert "Log errors on unseen CNNs" not in detail.content.decode()
    assert client.get("/admin/regression/trainedmodel/add/").status_code == 403
    reports = client.get("/admin/regression/evaluation/").content.decode()
    assert str(trained.metrics["unseen_cnn"]["mape"]) in reports
