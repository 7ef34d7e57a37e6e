"""Stored curves: computed once, again when stale, and never lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.db import DatabaseError
from django.utils import timezone

from benchmarking.models import Architecture
from benchmarking.specs import Optimizer, Precision
from predictions import curves
from predictions.curves import (
    STANDARD_BATCH_SIZES,
    CurveRequest,
    Place,
    curves_for,
    mark_outdated,
    mark_stale,
    refresh_stale_curves,
)
from predictions.models import ForecastCurve

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def request_on_t4(catalogue) -> CurveRequest:
    machine = catalogue["aws-g4dn.xlarge"]
    return CurveRequest(
        Architecture.objects.get(slug="resnet50"),
        Place(machine.device, machine),
        Precision.FP32,
        Optimizer.SGD,
    )


def test_a_curve_is_computed_once(request_on_t4, regression):
    first = curves_for([request_on_t4], None)[request_on_t4.key]
    again = curves_for([request_on_t4], [1, 64])[request_on_t4.key]
    assert first.points == again.points
    assert regression.asked == [("resnet50", "aws-g4dn.xlarge", len(STANDARD_BATCH_SIZES))]
    assert first.points["batch_sizes"] == list(STANDARD_BATCH_SIZES)


def test_a_stored_curve_is_read_with_one_query(request_on_t4, django_assert_num_queries):
    curves_for([request_on_t4], None)
    with django_assert_num_queries(1):
        curves_for([request_on_t4], None)


def test_an_unusual_batch_size_is_added_to_the_curve(request_on_t4, regression):
    curves_for([request_on_t4], None)
    curve = curves_for([request_on_t4], [100, 3000])[request_on_t4.key]
    assert set(curve.points["batch_sizes"]) == {*STANDARD_BATCH_SIZES, 100, 3000}
    assert curve.points["batch_sizes"] == sorted(curve.points["batch_sizes"])
    curves_for([request_on_t4], [100])
    assert len(regression.asked) == 2
    assert ForecastCurve.objects.count() == 1


def test_a_curve_does_not_grow_without_end(request_on_t4):
    for start in range(65, 4096, 500):
        curve = curves_for([request_on_t4], range(start, start + 500))[request_on_t4.key]
    assert len(curve.points["batch_sizes"]) <= 2 * 512


def test_a_device_alone_has_a_curve_of_its_own(request_on_t4, regression):
    alone = CurveRequest(
        request_on_t4.architecture,
        Place(request_on_t4.place.device),
        Precision.FP32,
        Optimizer.SGD,
    )
    curves_for([request_on_t4, alone], None)
    assert set(ForecastCurve.objects.values_list("place", flat=True)) == {
        "aws-g4dn.xlarge",
        "device:t4",
    }


class TestStale:
    def test_a_marked_curve_is_computed_again_and_then_fresh(self, request_on_t4, regression):
        with time_machine.travel(NOON, tick=False) as clock:
            curves_for([request_on_t4], None)
            clock.shift(60)
            assert mark_stale([request_on_t4.place.device.pk]) == 1
            clock.shift(60)
            curves_for([request_on_t4], None)
            curves_for([request_on_t4], None)
        assert len(regression.asked) == 2

    def test_a_mark_that_came_while_computing_is_not_forgotten(
        self, request_on_t4, regression, monkeypatch
    ):
        answer = curves.compute_curve

        def answer_slowly(*args):
            mark_stale([request_on_t4.place.device.pk])
            return answer(*args)

        curves_for([request_on_t4], None)
        mark_stale([request_on_t4.place.device.pk])
        monkeypatch.setattr(curves, "compute_curve", answer_slowly)
        curves_for([request_on_t4], None)
        assert ForecastCurve.objects.get().is_stale
        assert len(regression.asked) == 2

    def test_another_devices_news_changes_nothing(self, request_on_t4, catalogue, regression):
        curves_for([request_on_t4], None)
        assert mark_stale([catalogue["reference-cpu"].device.pk]) == 0
        curves_for([request_on_t4], None)
        assert len(regression.asked) == 1

    def test_a_changed_specification_makes_its_curves_anew(self, request_on_t4, regression):
        curves_for([request_on_t4], None)
        device = request_on_t4.place.device
        device.usable_memory_mib = 8000.0
        device.save()
        curve = curves_for([request_on_t4], None)[request_on_t4.key]
        assert len(regression.asked) == 2
        assert curve.largest_batch == 64

    def test_outdated_curves_are_found_without_a_signal(self, request_on_t4):
        device_id = request_on_t4.place.device.pk
        curves_for([request_on_t4], None)
        earlier = timezone.now() - timedelta(hours=1)
        later = timezone.now() + timedelta(hours=1)
        assert mark_outdated({device_id: earlier}) == 0
        assert mark_outdated({device_id: later}) == 1
        assert ForecastCurve.objects.get().is_stale
        # Marking twice would hide that a refresh happened in between.
        assert mark_outdated({device_id: later}) == 0

    def test_refreshing_computes_what_is_stale_and_nothing_else(
        self, request_on_t4, catalogue, regression
    ):
        cpu = catalogue["reference-cpu"]
        other = CurveRequest(
            request_on_t4.architecture, Place(cpu.device, cpu), Precision.FP32, Optimizer.SGD
        )
        curves_for([request_on_t4, other], [100])
        mark_stale([request_on_t4.place.device.pk])
        regression.asked.clear()
        assert refresh_stale_curves(limit=10) == 1
        assert regression.asked == [("resnet50", "aws-g4dn.xlarge", len(STANDARD_BATCH_SIZES) + 1)]
        assert refresh_stale_curves(limit=10) == 0


def test_an_answer_that_cannot_be_stored_is_still_given(request_on_t4, monkeypatch, caplog):
    def refuse(*args, **kwargs):
        raise DatabaseError("database is locked")

    monkeypatch.setattr(type(ForecastCurve.objects.all()), "bulk_create", refuse)
    curve = curves_for([request_on_t4], None)[request_on_t4.key]
    assert curve.points["iteration_ms"][0] > 10
    assert ForecastCurve.objects.count() == 0
    assert "could not be stored" in caplog.text
