"""Machines, architectures, method, jobs, and the error pages."""

from __future__ import annotations

import html

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.test import RequestFactory

from benchmarking.models import Architecture
from benchmarking.tests.factories import (
    create_iteration_timing,
    create_job,
    create_price,
    create_run,
    create_stack,
)
from predictions.views import errors


def text_of(response) -> str:
    return html.unescape(response.content.decode())


class TestMachines:
    def test_the_list_has_each_machine_with_its_price(self, catalogue, client):
        text = text_of(client.get("/machines/"))
        assert "6 machines" in text
        assert "$21.957642/h" in text
        assert "8 x NVIDIA A100" in text
        assert text.count("can no longer be rented") == 1
        assert text.count("no price known") == 1

    def test_a_search_keeps_what_holds_every_word(self, catalogue, client):
        text = text_of(client.get("/machines/?q=t4+AWS"))
        assert "2 machines" in text
        assert "aws-g4dn.xlarge" in text and "azure-undated" not in text

    def test_a_search_without_a_match_says_what_to_try(self, catalogue, client):
        assert "No machine holds these words." in text_of(client.get("/machines/?q=tpu"))

    def test_the_number_of_queries_does_not_grow(
        self, catalogue, client, django_assert_num_queries
    ):
        with django_assert_num_queries(2):
            client.get("/machines/")

    def test_a_machine_has_its_prices_over_time_and_what_is_measured(self, catalogue, client):
        machine = catalogue["reference-cpu"]
        create_price(machine=machine, usd_per_hour="0.2", as_of="2025-01", source="old list")
        run = create_run(machine=machine, stack=create_stack())
        network = Architecture.objects.get(slug="resnet50")
        for size in (1, 2):
            create_iteration_timing(run=run, architecture=network, batch_size=size)
        text = text_of(client.get("/machines/reference-cpu/"))
        assert text.index("2026-01-01") < text.index("2025-01")
        assert "old list" in text
        assert "resnet50 at 224 px" in text and "<td>2</td>" in text

    @pytest.mark.parametrize("name", ["nowhere", "%00", "a%20b", "x" * 200])
    def test_an_unknown_machine_is_not_found(self, catalogue, client, name):
        response = client.get(f"/machines/{name}/")
        assert response.status_code == 404
        assert "No such page" in text_of(response)


class TestArchitectures:
    def test_the_list(self, catalogue, client):
        text = text_of(client.get("/architectures/"))
        assert "3 CNNs" in text
        assert "299 px<small>or 224 to 299</small>" in text
        assert "25.6 M" in text and "4.09 G" in text

    def test_a_cnn_has_its_layers(self, catalogue, client):
        text = text_of(client.get("/architectures/resnet50/224/"))
        assert "25,557,032" in text
        assert "3 different layers" in text
        assert "<td>3 x 32 x 32</td>" in text

    def test_a_size_that_was_not_traced_is_not_found(self, catalogue, client):
        for size in ("299", "0", "9" * 30):
            assert client.get(f"/architectures/resnet50/{size}/").status_code == 404


def test_the_method_is_explained_in_plain_words(client, db):
    text = text_of(client.get("/method/"))
    for word in ("iterations", "batch size", "epoch", "remainder", "80 % interval"):
        assert word in text


class TestJobs:
    def test_visitors_are_sent_to_log_in(self, catalogue, client):
        response = client.get("/jobs/")
        assert response.status_code == 302
        assert response["Location"].startswith("/admin/login/?next=/jobs/")

    def test_staff_see_the_jobs(self, catalogue, client):
        client.force_login(User.objects.create_user("operator", is_staff=True))
        create_job(machine=catalogue["reference-cpu"], planned_count=40, stored_count=12)
        text = text_of(client.get("/jobs/"))
        assert "12 of 40" in text and "Queued" in text


class TestErrors:
    @pytest.mark.parametrize(
        ("response", "status", "words"),
        [
            (lambda r: errors.bad_request(r, Exception()), 400, "cannot be read"),
            (lambda r: errors.permission_denied(r, PermissionDenied()), 403, "operators"),
            (lambda r: errors.page_not_found(r, Exception()), 404, "No such page"),
            (errors.server_error, 500, "Something broke on our side"),
        ],
    )
    def test_each_error_has_a_page_that_needs_no_database(self, response, status, words):
        answer = response(RequestFactory().get("/x"))
        assert answer.status_code == status
        assert words in text_of(answer)

    def test_a_broken_page_has_an_id_that_stands_in_the_log(self, caplog):
        text = text_of(errors.server_error(RequestFactory().get("/x")))
        (record,) = caplog.records
        assert record.args[0] in text
        assert len(record.args[0]) == 12

    def test_the_site_uses_them(self, client, db):
        response = client.get("/no-such-page/")
        assert response.status_code == 404
        assert "No such page" in text_of(response)
