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
    create_layer_timing,
    create_price,
    create_run,
    create_stack,
)
from predictions import catalogue_pages
from predictions.display import EN_DASH
from predictions.views import catalogue as catalogue_views
from predictions.views import errors
from predictions.worked_example import make_worked_example


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

    def test_machines_that_nobody_can_rent_come_last(self, catalogue, client):
        text = text_of(client.get("/machines/"))
        assert text.index("/machines/reference-cpu/") < text.index("/machines/aws-old.xlarge/")

    def test_u6_a_search_without_a_match_says_what_to_try(self, catalogue, client):
        text = text_of(client.get("/machines/?q=aws+a100x"))
        assert "No machine holds these words." in text
        assert 'Did you mean <a href="/machines/?q=A100">A100</a>?' in text
        assert "Did you mean" not in text_of(client.get("/machines/?q=%F0%9F%90%8D"))

    def test_u1_an_empty_search_leaves_nothing_in_the_address(self, catalogue, client):
        assert client.get("/machines/?q=")["HX-Replace-Url"] == "/machines/"
        assert "HX-Replace-Url" not in client.get("/machines/?q=t4")

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
        table = text[text.index('<table class="prices">') :]
        assert table.index("2026-01-01") < table.index("2025-01")
        assert "old list" in text
        assert '<a href="/architectures/resnet50/224/">resnet50</a>' in text
        assert f'<td data-label="Batch sizes">1 {EN_DASH} 2</td>' in text
        assert '<td data-label="Timings">2</td>' in text
        assert "/?architecture=resnet50&machine=reference-cpu&image_size=224" in text

    def test_u8_a_price_chart_has_a_title_a_summary_and_its_table(self, catalogue, client):
        create_price(machine=catalogue["aws-g4dn.xlarge"], usd_per_hour="1", as_of="2025-01")
        text = text_of(client.get("/machines/aws-g4dn.xlarge/"))
        assert "<h3>Price of an hour over time</h3>" in text
        assert (
            "On demand in us-east-1: $1.00 (2025-01), then $0.526 (2026-01-01), 47 % less." in text
        )
        assert "<td>0.526</td>" in text and "<td>1</td>" in text
        assert 'id="figures"' in text and "plotly-basic.min.js" in text

    def test_one_dated_price_is_said_and_not_drawn(self, catalogue, client):
        text = text_of(client.get("/machines/aws-g4dn.xlarge/"))
        assert "$0.526 an hour on demand in us-east-1, as of 2026-01-01: the only day" in text
        assert "plotly-basic.min.js" not in text and 'id="figures"' not in text

    def test_a_machine_of_several_gpus_says_that_one_is_used(self, catalogue, client):
        text = text_of(client.get("/machines/aws-p4d.24xlarge/"))
        assert "a forecast uses 1 of 8 GPUs; you pay for all 8" in text
        assert "you pay for all" not in text_of(client.get("/machines/aws-g4dn.xlarge/"))

    def test_other_machines_with_the_same_gpu_are_named(self, catalogue, client):
        text = text_of(client.get("/machines/gcp-unpriced/"))
        assert '<a href="/machines/aws-g4dn.xlarge/">aws-g4dn.xlarge</a>' in text
        assert "aws-old.xlarge</a> (retired)" in text

    def test_a_machine_without_a_price_says_why(self, catalogue, client):
        machine = catalogue["gcp-unpriced"]
        machine.no_price_reason = "Its provider shows prices to customers only."
        machine.save()
        text = text_of(client.get("/machines/gcp-unpriced/"))
        assert "No price is known" in text and "to customers only." in text

    def test_only_the_newest_prices_stand_on_the_page(self, catalogue, client, monkeypatch):
        monkeypatch.setattr(catalogue_pages, "MAX_QUOTATIONS", 2)
        monkeypatch.setattr(catalogue_views, "MAX_QUOTATIONS", 2)
        for day in ("2024-01-01", "2025-01-01"):
            create_price(machine=catalogue["aws-g4dn.xlarge"], as_of=day)
        text = text_of(client.get("/machines/aws-g4dn.xlarge/"))
        assert "The newest 2 quotations" in text
        assert '"/api/v1/prices/?machine=aws-g4dn.xlarge"' in text
        assert "2025-01-01" in text and "2024-01-01" not in text

    def test_a_page_takes_a_constant_number_of_queries(
        self, catalogue, client, django_assert_max_num_queries
    ):
        network = Architecture.objects.get(slug="resnet50")
        for version in ("2.1", "2.2", "2.3"):
            stack = create_stack(framework_version=version)
            run = create_run(machine=catalogue["reference-cpu"], stack=stack)
            create_iteration_timing(run=run, architecture=network, batch_size=1)
        with django_assert_max_num_queries(8):
            assert "2.3" in text_of(client.get("/machines/reference-cpu/"))

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
        assert "25.6 M" in text and "8.18 G" in text

    def test_u6_a_search_without_a_match_says_what_to_try(self, catalogue, client):
        text = text_of(client.get("/architectures/?q=resnet5O"))
        assert "No CNN holds these words." in text
        assert '<a href="/architectures/?q=resnet50">resnet50</a>?' in text

    def test_a_cnn_has_its_layers(self, catalogue, client):
        text = text_of(client.get("/architectures/resnet50/224/"))
        assert "25,557,032" in text
        assert "3 different layers" in text
        assert "<td>3 x 32 x 32</td>" in text

    def test_a_cnn_has_its_size(self, catalogue, client):
        text = text_of(client.get("/architectures/resnet50/224/"))
        assert "<dd>8.18 G<small>per example: 4,089,284,608 multiply-adds</small></dd>" in text
        assert "<dd>81.9 MiB<small>kept for the backward pass in FP32; 41 MiB" in text
        assert "<dd>4<small>of 3 different shapes</small></dd>" in text

    def test_a_cnn_says_where_it_is_measured(self, catalogue, client):
        run = create_run(machine=catalogue["reference-cpu"], stack=create_stack())
        network = Architecture.objects.get(slug="resnet50")
        create_layer_timing(run=run, layer=network.uses.first().layer)
        text = text_of(client.get("/architectures/resnet50/224/"))
        assert "No whole iteration of it was timed." in text
        assert '<td data-label="Layers measured">1</td>' in text
        assert '<td data-label="Missing">2</td>' in text
        create_iteration_timing(run=run, architecture=network, batch_size=8)
        text = text_of(client.get("/architectures/resnet50/224/"))
        assert '<td data-label="Batch sizes">8</td>' in text
        assert "/?architecture=resnet50&machine=reference-cpu&image_size=224" in text

    def test_a_size_that_was_not_traced_is_not_found(self, catalogue, client):
        for size in ("299", "0", "9" * 30):
            missing = client.get(f"/architectures/resnet50/{size}/")
            assert missing.status_code == 404
            assert "No such page" in missing.content.decode()


def test_the_method_is_explained_in_plain_words(client, db):
    text = text_of(client.get("/method/"))
    for word in ("iterations", "batch size", "epoch", "remainder", "80 % interval"):
        assert word in text


class TestAbout:
    def test_the_words_are_explained_to_somebody_who_is_new(self, catalogue, client):
        text = text_of(client.get("/about/"))
        for word in ("Batch size", "Iteration", "Epoch", "Cost", "Interval", "Source", "Fits"):
            assert f">{word}</dt>" in text

    def test_the_steps_hold_the_numbers_of_this_site(self, catalogue, client):
        text = text_of(client.get("/about/"))
        assert "resnet50 on aws-g4dn.xlarge, in batches of 32" in text
        assert "1,281,167 / 32, rounded up: 40,037 iterations" in text
        assert "costs</strong> $0.526 an hour (on demand, us-east-1, 2026-01-01)" in text
        example = make_worked_example()
        assert f"takes {example.iteration_ms} ms" in text
        assert f"costs {example.cost}; its interval is {example.cost_range}." in text

    def test_without_a_catalogue_the_words_stand_alone(self, db, client):
        text = text_of(client.get("/about/"))
        assert ">Epoch</dt>" in text and "step by step" not in text


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
