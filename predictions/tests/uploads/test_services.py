"""Storing, keeping, deleting and expiring uploaded networks."""

from __future__ import annotations

import fcntl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile

from benchmarking.models import Architecture, ArchitectureLayer, ConvolutionLayer
from benchmarking.onnx_import.errors import UploadError
from benchmarking.onnx_import.reader import read_onnx
from benchmarking.tests.factories import (
    create_iteration_timing,
    create_layer,
    create_layer_timing,
    create_run,
)
from benchmarking.tests.onnx_import.graphs import small_network
from predictions.apps import PredictionsConfig
from predictions.coverage import coverage_of
from predictions.forecast import load_choices, make_forecast
from predictions.models import ForecastCurve
from predictions.query import QueryError, parse_query
from predictions.tasks import remove_expired_uploads
from predictions.tests.uploads.conftest import onnx_file, trace_text
from predictions.uploads import services
from predictions.uploads.models import MeasurementRequest, OwnNetwork
from predictions.uploads.services import (
    IdempotencyError,
    Sender,
    UploadBusyError,
    delete_network,
    find_network,
    keep_network,
    request_measurement,
    upload_network,
)

DAY = datetime(2026, 11, 29, 12, tzinfo=UTC)


def stored() -> tuple[int, int, int, int]:
    """Rows of everything that an upload may leave behind."""
    return (
        OwnNetwork.objects.count(),
        Architecture.objects.filter(source=Architecture.UPLOADED).count(),
        ConvolutionLayer.objects.count(),
        ArchitectureLayer.objects.count(),
    )


def forecast_of(network: OwnNetwork):
    slug = network.architecture.slug
    parameters = {"architecture": [slug], "machine": ["aws-g4dn.xlarge"]}
    return make_forecast(parse_query(parameters, load_choices([slug])))


def test_an_onnx_file_becomes_the_network_that_the_reader_gives(upload):
    network = upload()
    expected = read_onnx(small_network(), slug=network.architecture.slug)
    architecture = Architecture.objects.prefetch_related("uses__layer").get(
        pk=network.architecture_id
    )
    assert architecture.to_spec() == expected
    assert (network.label, architecture.source) == ("my net", "upload")


def test_a_traced_json_keeps_its_name_as_label(catalogue):
    network = upload_network(SimpleUploadedFile("anything.txt", trace_text().encode()))
    assert network.label == "traced-net"
    assert network.architecture.slug == f"own-{network.token}"


def test_characters_that_nobody_sees_are_dropped(catalogue):
    text = trace_text().replace('"note":""', r'"note":"<b>a\u0000b\ud800</b>\n"')
    assert "ud800" in text
    network = upload_network(SimpleUploadedFile("x.json", text.encode()))
    assert network.architecture.note == "<b>ab</b>"


def test_two_uploads_have_links_that_nobody_guesses(upload):
    first, second = upload(), upload()
    assert first.token != second.token
    assert len(first.token) == 22
    assert find_network(first.token) == first
    assert find_network(first.token[:-1] + "!") is None
    assert find_network("\0" * 22) is None


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "not_onnx"),
        (b"PK\x03\x04 something zipped", "archive"),
        (small_network()[:100], "not_onnx"),
        (b"{", "bad_trace"),
        (trace_text().replace('"parameters":', '"parameters":-').encode(), "bad_trace"),
    ],
)
def test_a_bad_file_leaves_nothing_behind(catalogue, content, code):
    before = stored()
    with pytest.raises(UploadError) as caught:
        upload_network(
            SimpleUploadedFile("x.onnx", content), sender=Sender(idempotency_key="again")
        )
    assert caught.value.code == code
    assert "\n" not in str(caught.value)
    assert stored() == before


def test_a_file_of_too_many_bytes_is_never_read(catalogue, monkeypatch):
    def must_not_run(*_args, **_options):
        raise AssertionError("read")

    monkeypatch.setattr(services, "read_untrusted", must_not_run)
    file = onnx_file()
    file.size = 64 * 2**20 + 1
    with pytest.raises(UploadError, match="at most 64 MB are allowed") as caught:
        upload_network(file)
    assert caught.value.code == "too_large"


def test_too_many_different_layers_are_refused(catalogue, monkeypatch):
    monkeypatch.setattr(services, "LARGEST_DISTINCT_LAYERS", 0)
    before = stored()
    with pytest.raises(UploadError, match="1 different convolution layers; at most 0"):
        upload_network(onnx_file())
    assert stored() == before


def test_one_file_is_read_at_a_time(catalogue):
    with (Path(settings.VAR_DIR) / "upload.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UploadBusyError):
            upload_network(onnx_file())
    assert upload_network(onnx_file()).label == "my net"


class TestIdempotency:
    def test_the_same_key_and_content_give_the_same_network(self, upload):
        sender = Sender("10.0.0.1", "key-1")
        assert upload(sender=sender) == upload(sender=sender)
        assert OwnNetwork.objects.count() == 1

    def test_another_content_or_size_is_refused(self, upload):
        sender = Sender("10.0.0.1", "key-1")
        upload(sender=sender)
        with pytest.raises(IdempotencyError, match="was used for another file"):
            upload_network(SimpleUploadedFile("x", trace_text().encode()), sender=sender)
        with pytest.raises(IdempotencyError, match="was used for another file"):
            upload(sender=sender, image_size=32)
        assert OwnNetwork.objects.count() == 1

    def test_keys_of_two_people_have_nothing_to_do_with_each_other(self, upload):
        first = upload(sender=Sender("10.0.0.1", "key-1"))
        second = upload(sender=Sender("10.0.0.2", "key-1"))
        assert first.token != second.token

    def test_a_key_of_an_expired_network_is_free_again(self, upload):
        sender = Sender("10.0.0.1", "key-1")
        with time_machine.travel(DAY, tick=False):
            first = upload(sender=sender)
        with time_machine.travel(DAY + timedelta(days=31), tick=False):
            second = upload(sender=sender)
        assert first.token != second.token
        assert OwnNetwork.objects.get() == second

    @pytest.mark.parametrize("key", ["x" * 201, "two\nlines"])
    def test_a_key_that_is_none(self, upload, key):
        with pytest.raises(IdempotencyError, match="1 to 200 printable characters"):
            upload(sender=Sender("10.0.0.1", key))


class TestExpiry:
    def test_a_link_ends_after_30_days_even_if_no_task_ran(self, upload):
        with time_machine.travel(DAY, tick=False):
            network = upload()
        slug = network.architecture.slug
        with time_machine.travel(DAY + timedelta(days=29, hours=23), tick=False):
            assert find_network(network.token) == network
            assert load_choices([slug]).own_image_sizes == {slug: (32,)}
        with time_machine.travel(DAY + timedelta(days=30), tick=False):
            assert find_network(network.token) is None
            assert load_choices([slug]).own_image_sizes == {}
            with pytest.raises(QueryError, match="its 30 days are over"):
                forecast_of(network)

    def test_the_daily_task_removes_them_with_their_curves(self, upload):
        before = stored()
        with time_machine.travel(DAY, tick=False):
            expired, kept = upload(), upload()
            keep_network(kept)
        with time_machine.travel(DAY + timedelta(days=1), tick=False):
            young = upload()
            for network in (expired, kept, young):
                forecast_of(network)
        assert ForecastCurve.objects.count() == 3
        with time_machine.travel(DAY + timedelta(days=30, hours=1), tick=False):
            assert remove_expired_uploads() == 1
            assert remove_expired_uploads() == 0
        assert set(OwnNetwork.objects.all()) == {kept, young}
        assert {curve.architecture for curve in ForecastCurve.objects.all()} == {
            kept.architecture,
            young.architecture,
        }
        for network in (kept, young):
            delete_network(network)
        assert stored() == before

    def test_beat_runs_it_every_day(self):
        entry = PredictionsConfig.beat_schedule["remove-expired-uploads"]
        assert entry["task"] == remove_expired_uploads.name


class TestDeleting:
    def test_layers_that_somebody_measured_stay(self, upload):
        network = upload()
        layer = network.architecture.uses.get().layer
        timing = create_layer_timing(run=create_run(), layer=layer)
        delete_network(network)
        assert list(ConvolutionLayer.objects.filter(pk=layer.pk)) == [layer]
        timing.refresh_from_db()

    def test_what_was_measured_of_it_stays_without_its_name(self, upload):
        network = upload()
        timing = create_iteration_timing(run=create_run(), architecture=network.architecture)
        slug = network.architecture.slug
        delete_network(network)
        timing.refresh_from_db()
        assert timing.architecture.slug == f"removed-upload-{timing.architecture_id}"
        assert load_choices([slug, timing.architecture.slug]).own_image_sizes == {}
        assert timing.architecture not in Architecture.objects.public()


def test_coverage_counts_layers_and_weighs_their_work(upload, catalogue):
    network = upload()
    assert coverage_of(network.architecture) == []
    layer = network.architecture.uses.get().layer
    timing = create_layer_timing(run=create_run(), layer=layer)
    other = create_layer_timing(run=create_run(), layer=create_layer())
    (covered, bare) = coverage_of(network.architecture)
    assert (covered.machine, covered.measured_layers, covered.missing_layers, covered.percent) == (
        timing.run.machine,
        1,
        0,
        100.0,
    )
    assert (bare.machine, bare.measured_layers, bare.missing_layers, bare.percent) == (
        other.run.machine,
        0,
        1,
        0.0,
    )


def test_a_wish_is_noted_once(upload, catalogue):
    network, machine = upload(), catalogue["aws-g4dn.xlarge"]
    first = request_measurement(network, machine, 1)
    assert request_measurement(network, machine, 1) == first
    assert list(MeasurementRequest.objects.all()) == [first]
