"""News from below: curves are marked at once, and computed again by Celery or by a sweep."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from benchmarking.signals import timings_stored
from benchmarking.tests.factories import create_run
from predictions import tasks
from predictions.forecast import make_forecast
from predictions.models import ForecastCurve
from regression.signals import models_trained


@pytest.fixture
def curve(ask) -> ForecastCurve:
    make_forecast(ask(architecture="resnet50", machine="aws-g4dn.xlarge"))
    return ForecastCurve.objects.get()


@pytest.fixture
def sent(monkeypatch) -> list[int]:
    """The devices whose refresh was sent to Celery."""
    found: list[int] = []
    monkeypatch.setattr(tasks.refresh_curves, "delay", found.append)
    return found


def test_new_timings_mark_the_curves_of_every_machine_with_that_device(
    catalogue, curve, sent, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        timings_stored.send(sender=None, machine_id=catalogue["azure-undated"].pk)
    curve.refresh_from_db()
    assert curve.is_stale
    assert sent == [curve.device_id]


def test_a_new_model_marks_the_curves_of_its_device(
    catalogue, curve, sent, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        models_trained.send(sender=None, device_id=curve.device_id, stack_id=1)
    curve.refresh_from_db()
    assert curve.is_stale
    assert sent == [curve.device_id]


def test_news_of_another_device_marks_nothing_and_sends_nothing(
    catalogue, curve, sent, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        timings_stored.send(sender=None, machine_id=catalogue["reference-cpu"].pk)
    curve.refresh_from_db()
    assert not curve.is_stale
    assert sent == []


def test_a_broker_that_does_not_answer_breaks_nothing(
    catalogue, curve, monkeypatch, caplog, django_capture_on_commit_callbacks
):
    def refuse(device_id):
        raise OSError("no broker")

    monkeypatch.setattr(tasks.refresh_curves, "delay", refuse)
    with django_capture_on_commit_callbacks(execute=True):
        timings_stored.send(sender=None, machine_id=catalogue["aws-g4dn.xlarge"].pk)
    curve.refresh_from_db()
    assert curve.is_stale
    assert "the broker does not answer" in caplog.text


def test_the_task_computes_the_stale_curves_of_its_device(catalogue, curve, regression, sent):
    timings_stored.send(sender=None, machine_id=catalogue["aws-g4dn.xlarge"].pk)
    regression.asked.clear()
    assert tasks.refresh_curves(device_id=catalogue["reference-cpu"].device_id) == 0
    assert tasks.refresh_curves(device_id=curve.device_id) == 1
    curve.refresh_from_db()
    assert not curve.is_stale


def test_the_sweep_finds_a_measurement_whose_signal_was_lost(catalogue, curve, regression):
    regression.asked.clear()
    assert tasks.sweep_stale_curves() == 0
    create_run(
        machine=catalogue["aws-g4dn.xlarge"], started_at=timezone.now() + timedelta(seconds=-1)
    )
    ForecastCurve.objects.update(computed_at=timezone.now() - timedelta(hours=1))
    assert tasks.sweep_stale_curves() == 1
    assert tasks.sweep_stale_curves() == 0
    assert [slug for slug, *_ in regression.asked] == ["resnet50"]
