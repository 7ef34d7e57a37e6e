"""Planning a job: what is shown before anything is paid, and what a confirmation makes."""

from __future__ import annotations

import re
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from benchmarking.jobs.quote import quote_job
from benchmarking.models import Architecture, BenchmarkJob, Machine, RemoteHost
from benchmarking.tests.factories import (
    create_architecture,
    create_price,
    create_run,
    create_stack,
    create_timings,
)
from predictions.tests.jobs.conftest import cloud_job, launch, text_of
from predictions.tests.uploads.conftest import onnx_file
from predictions.uploads.services import upload_network
from predictions.uploads.tokens import OWN_PREFIX

PLAN = "/jobs/new/?machine=aws-g4dn.xlarge&architecture=resnet50&batch_sizes=1,2"


def maximum_usd() -> Decimal:
    """Of the shortest job on the machine of the plan."""
    machine = Machine.objects.get(slug="aws-g4dn.xlarge")
    quote = quote_job(machine=machine, expected_seconds=60.0, host_kind="ec2")
    assert quote.maximum_usd is not None
    return quote.maximum_usd


class ConfirmForm(HTMLParser):
    """The hidden fields of the form that starts a job."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fields: dict[str, Any] = {}
        self._is_inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs) -> None:
        values = dict(attrs)
        if tag == "form":
            self._is_inside = values.get("id") == "confirm-form"
        if tag == "input" and self._is_inside and values.get("name") != "csrfmiddlewaretoken":
            known = self.fields.get(values["name"])
            self.fields[values["name"]] = (
                values["value"] if known is None else [known, values["value"]]
            )


def fields_of(response) -> dict[str, Any]:
    return ConfirmForm(response.content.decode()).fields


# Who ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/jobs/", "/jobs/new/", "/jobs/spending/"])
def test_visitors_are_sent_to_log_in(catalogue, client, path):
    response = client.get(path)
    assert (response.status_code, response["Location"]) == (302, f"/admin/login/?next={path}")


@pytest.mark.parametrize("path", ["/jobs/", "/jobs/new/", "/jobs/spending/"])
def test_who_is_not_of_the_staff_is_refused(catalogue, client, path):
    client.force_login(User.objects.create_user("visitor"))
    response = client.get(path)
    assert response.status_code == 403
    assert "This page is for the site's operators." in text_of(response)


def test_u10_staff_without_the_permission_see_a_plan_and_start_nothing(onlooker, client):
    shown = client.get(PLAN)
    assert fields_of(shown) == {}
    assert "needs the permission to add benchmark jobs" in text_of(shown)
    response = client.post("/jobs/new/", {"machine": "aws-g4dn.xlarge", "idempotency_key": "1"})
    assert response.status_code == 403
    assert BenchmarkJob.objects.count() == 0


def test_u10_a_job_is_started_by_post_with_a_token_of_the_form_only(operator):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(operator)
    response = strict.post("/jobs/new/", {"machine": "aws-g4dn.xlarge", "idempotency_key": "1"})
    assert response.status_code == 403
    assert BenchmarkJob.objects.count() == 0


# What is shown --------------------------------------------------------------------------------


def test_u10_a_plan_shows_time_cost_maximum_price_deadline_and_limits_first(operator, client):
    text = text_of(client.get(PLAN))
    # Two iterations, and eight passes of three layers, at two batch sizes.
    assert "18 timings are missing on aws-g4dn.xlarge" in text
    assert "torch of unknown version · fp32: nobody has measured this GPU so yet" in text
    assert "Expected time" in text and "and about 4 min until it measures" in text
    # Half an hour of measuring, and boot and margin, at 0.526 dollars.
    assert f"Maximum cost ${maximum_usd()} the machine is ended before it costs more" in text
    assert "Price $0.526/h On demand, us-east-1, 2026-01-01" in text
    assert re.search(r"Ends at the latest 1 h( \d+ min)? after it starts", text)
    assert "Where Amazon EC2, us-east-1" in text
    assert "Left this month $50.00 of $50.00" in text
    assert "At most $10.00 a job." in text
    assert f"Start it for at most ${maximum_usd()}" in text
    assert BenchmarkJob.objects.count() == 0


def test_what_is_measured_or_left_out_is_said(operator, catalogue, client):
    architecture = Architecture.objects.get(slug="resnet50")
    run = create_run(machine=catalogue["aws-g4dn.xlarge"], stack=create_stack(cuda_version="12.6"))
    create_timings(run=run, architecture=architecture, batch_sizes=[1])
    own = create_architecture(slug=f"{OWN_PREFIX}net", source=Architecture.UPLOADED, uses=[])
    text = text_of(client.get(f"{PLAN}&architecture={own.slug}"))
    assert "9 timings are missing" in text and "9 are measured or under way." in text
    assert "torch 2.14.1 · fp32 · CUDA 12.6" in text
    assert f"{own.slug} is no torchvision network: only its layers can be timed." in text


def test_where_nothing_is_missing_nothing_can_be_started(operator, catalogue, client):
    architecture = Architecture.objects.get(slug="resnet50")
    run = create_run(machine=catalogue["aws-g4dn.xlarge"])
    create_timings(run=run, architecture=architecture, batch_sizes=[1, 2])
    response = client.get(PLAN)
    assert "Nothing is missing on aws-g4dn.xlarge" in text_of(response)
    assert fields_of(response) == {}


def test_a_job_here_or_over_ssh_is_not_paid_for(operator, catalogue, client):
    machine = catalogue["aws-g4dn.xlarge"]
    RemoteHost.objects.create(
        name="lab",
        machine=machine,
        address="10.0.0.7",
        user="me",
        login_key=b"",
        host_public_key="x",
    )
    over_ssh = client.get(PLAN)
    assert "Cost nothing is paid Any machine over SSH" in text_of(over_ssh)
    assert "Where lab, 10.0.0.7" in text_of(over_ssh)
    assert fields_of(over_ssh)["host"] == "ssh"
    assert "max_usd" not in fields_of(over_ssh)
    here = client.get("/jobs/new/?machine=reference-cpu&architecture=resnet50")
    assert "Cost nothing is paid This machine" in text_of(here)


def test_u1_what_is_typed_stands_in_the_form_again(operator, client):
    page = client.get(f"{PLAN}&max_usd=2.5&price=spot&host=ec2&rounds=3").content.decode()
    assert 'value="1,2"' in page and 'value="2.5"' in page and 'value="3"' in page
    assert '<option value="spot" selected>' in page
    assert '<option value="dnnmark">DNNMark, layers only</option>' in page
    assert '<option value="aws-g4dn.xlarge" selected>' in page


def test_a_link_may_leave_the_machine_to_be_chosen(operator, client):
    response = client.get("/jobs/new/?architecture=resnet50&machine=")
    assert response.status_code == 200
    assert 'value="resnet50" checked' in response.content.decode()
    assert "Nothing was started" not in text_of(response)


@pytest.mark.parametrize("path", ["/machines/aws-g4dn.xlarge/", "/machines/aws-old.xlarge/"])
def test_the_page_of_a_machine_that_can_be_rented_offers_operators_a_plan(operator, client, path):
    link = 'href="/jobs/new/?machine=aws-g4dn.xlarge"'
    assert (link in client.get(path).content.decode()) == ("g4dn" in path)
    assert "/jobs/new/" not in Client().get(path).content.decode()


def test_a_private_network_offers_operators_a_plan_and_nobody_else(operator, client):
    network = upload_network(onnx_file())
    path = f"/own/{network.token}/"
    link = f'href="/jobs/new/?architecture={network.architecture.slug}"'
    assert link in client.get(path).content.decode()
    assert "/jobs/new/" not in Client().get(path).content.decode()


def test_options_of_the_forecast_page_do_no_harm_and_slips_are_refused(operator, client):
    assert client.get(f"{PLAN}&epochs=90&region=us-east-1&examples=5").status_code == 200
    response = client.get(f"{PLAN}&max_us=2")
    assert response.status_code == 400
    assert "There is no option 'max_us'. Did you mean max_usd" in text_of(response)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("machine=aws-g4dn.xlarg", "Unknown machine 'aws-g4dn.xlarg' (did you mean aws-g4dn"),
        ("machine=a&machine=b", "Choose one machine, for example aws-g4dn.xlarge."),
        ("machine=aws-g4dn.xlarge&architecture=", "Name at least one CNN, or leave architecture"),
        ("machine=aws-g4dn.xlarge&architecture=resnet5", "(did you mean resnet50?)."),
        ("machine=aws-g4dn.xlarge&architecture=resnet50&image_size=99", "is not known at 99 px"),
        ("machine=aws-g4dn.xlarge&batch_sizes=8-4", "a range goes from small to large"),
        ("machine=aws-g4dn.xlarge&precision=tf32", "NVIDIA T4 computes in fp32, amp, not in tf32."),
        ("machine=aws-g4dn.xlarge&host=moon", "Unknown host 'moon'"),
        ("machine=aws-g4dn.xlarge&host=ssh", "the admin adds remote hosts"),
        ("machine=aws-g4dn.xlarge&remote_host=mine", "A remote host goes with host ssh alone."),
        ("machine=aws-g4dn.xlarge&rounds=0", "must be a whole number from 1 to 100"),
        ("machine=aws-g4dn.xlarge&max_usd=-1", "US dollars above 0"),
        ("machine=aws-g4dn.xlarge&max_usd=nan", "US dollars above 0"),
        ("machine=aws-g4dn.xlarge&max_hours=1e9", "hours above 0 and at most 720"),
        ("machine=gcp-unpriced&host=ec2", "Amazon EC2 has no gcp-unpriced"),
        ("machine=reference-cpu&price=spot", "Only a machine that is rented has a price"),
        ("machine=reference-cpu&max_usd=3", "Nothing is paid there"),
        ("machine=%00", "machine is plain text of at most 2000 characters."),
    ],
)
def test_wrong_options_get_a_sentence_and_start_nothing(operator, client, query, sentence):
    response = client.get(f"/jobs/new/?{query}")
    assert response.status_code == 400
    assert sentence in text_of(response)
    assert BenchmarkJob.objects.count() == 0


@pytest.mark.parametrize(
    ("machine", "options", "sentence"),
    [
        ("aws-old.xlarge", "", "aws-old.xlarge cannot be rented any more"),
        ("aws-g4dn.xlarge", "&price=spot", "No spot price of aws-g4dn.xlarge is known"),
        ("aws-g4dn.xlarge", "&max_usd=20", "A job may cost at most 10.00 USD"),
        ("aws-g4dn.xlarge", "&max_usd=0.1", "0.10 USD are too little"),
    ],
)
def test_what_cannot_be_rented_is_planned_and_not_offered(
    operator, client, machine, options, sentence
):
    response = client.get(
        f"/jobs/new/?machine={machine}&architecture=resnet50&batch_sizes=1{options}&host=ec2"
    )
    assert "9 timings are missing" in text_of(response)
    assert sentence in text_of(response)
    assert fields_of(response) == {}


def test_r20_at_the_cap_the_plan_says_so_and_offers_nothing(operator, catalogue, client, settings):
    launch(cloud_job(catalogue["aws-p4d.24xlarge"]), reserved_usd=Decimal("49.80"))
    response = client.get(PLAN)
    assert (
        f"The job may cost {maximum_usd()} USD, and 0.20 of this month's 50.00 USD are left "
        "(BENCHMARK_USD_PER_MONTH)." in text_of(response)
    )
    assert fields_of(response) == {}
    settings.BENCHMARK_USD_PER_MONTH = Decimal(0)
    assert "BENCHMARK_USD_PER_MONTH is 0" in text_of(client.get(PLAN))


def test_r21_switched_off_benchmarks_are_planned_and_not_started(operator, client, settings):
    fields = fields_of(client.get(PLAN))
    settings.BENCHMARKS_ENABLED = False
    response = client.get(PLAN)
    assert "switched off on this site (BENCHMARKS_ENABLED)" in text_of(response)
    assert fields_of(response) == {}
    refused = client.post("/jobs/new/", fields)
    assert refused.status_code == 409
    assert BenchmarkJob.objects.count() == 0


# What a confirmation makes --------------------------------------------------------------------


def test_a_confirmed_plan_becomes_the_job_that_was_shown(
    operator, client, django_capture_on_commit_callbacks, monkeypatch
):
    rung = []
    monkeypatch.setattr("predictions.job_plans.ring_for_job", lambda *call: rung.append(call))
    fields = fields_of(client.get(PLAN))
    assert fields["max_usd"] == str(maximum_usd())
    with django_capture_on_commit_callbacks(execute=True):
        response = client.post("/jobs/new/", fields)
    job = BenchmarkJob.objects.get()
    assert (response.status_code, response["Location"]) == (302, f"/jobs/{job.pk}/")
    assert (job.machine.slug, job.host_kind, job.price_kind) == (
        "aws-g4dn.xlarge",
        "ec2",
        "on-demand",
    )
    assert (job.planned_count, job.maximum_usd, job.created_by) == (8, maximum_usd(), operator)
    assert job.plan["time_budget_seconds"] == 1800.0
    assert rung == [(job.pk, 0.0)]


def test_u10_a_double_click_a_reload_and_the_back_button_make_one_job(operator, client):
    fields = fields_of(client.get(PLAN))
    answers = {client.post("/jobs/new/", fields)["Location"] for _ in range(3)}
    assert answers == {f"/jobs/{BenchmarkJob.objects.get().pk}/"}


def test_the_same_key_for_another_job_is_refused(operator, client):
    fields = fields_of(client.get(PLAN))
    client.post("/jobs/new/", fields)
    response = client.post("/jobs/new/", {**fields, "machine": "aws-p4d.24xlarge"})
    assert response.status_code == 409
    assert "This idempotency key was used for another job" in text_of(response)
    assert BenchmarkJob.objects.count() == 1


def test_another_operator_may_use_the_same_key(operator, client):
    fields = fields_of(client.get(PLAN))
    client.post("/jobs/new/", fields)
    client.force_login(User.objects.create_superuser("other"))
    client.post("/jobs/new/", {**fields, "batch_sizes": "4"})
    assert {str(job.created_by) for job in BenchmarkJob.objects.all()} == {"operator", "other"}


def test_a_price_that_rose_meanwhile_never_costs_more_than_was_agreed(operator, catalogue, client):
    fields = fields_of(client.get(PLAN))
    create_price(machine=catalogue["aws-g4dn.xlarge"], usd_per_hour="0.6", as_of="2026-02-01")
    client.post("/jobs/new/", fields)
    job = BenchmarkJob.objects.get()
    assert job.maximum_usd == Decimal(fields["max_usd"])
    # Less time for the same money.
    assert job.plan["time_budget_seconds"] < 1800.0


def test_work_that_is_under_way_makes_no_second_job(operator, client):
    client.post("/jobs/new/", fields_of(client.get(PLAN)))
    shown = client.get(PLAN)
    assert "Nothing is missing on aws-g4dn.xlarge" in text_of(shown)
    response = client.post(
        "/jobs/new/",
        {
            "machine": "aws-g4dn.xlarge",
            "architecture": "resnet50",
            "batch_sizes": "1,2",
            "host": "ec2",
            "max_usd": str(maximum_usd()),
            "idempotency_key": "another",
        },
    )
    assert response.status_code == 409
    assert "everything is measured or under way" in text_of(response)
    assert BenchmarkJob.objects.count() == 1


@pytest.mark.parametrize("key", [{}, {"idempotency_key": ""}, {"idempotency_key": "x" * 201}])
def test_without_a_usable_key_the_plan_is_shown_again(operator, client, key):
    response = client.post(
        "/jobs/new/",
        {"machine": "aws-g4dn.xlarge", "architecture": "resnet50", **key},
    )
    assert response.status_code == 400
    assert (
        "Nothing was started. Starting a job takes an idempotency_key with 1 to 200 characters"
        in text_of(response)
    )
    assert "timings are missing" in text_of(response)
    assert 0 < len(fields_of(response)["idempotency_key"]) <= 200
    assert BenchmarkJob.objects.count() == 0


def test_a_private_network_can_be_measured_by_its_name(operator, client):
    own = create_architecture(slug=f"{OWN_PREFIX}net", source=Architecture.UPLOADED)
    address = f"/jobs/new/?machine=aws-g4dn.xlarge&architecture={own.slug}&batch_sizes=1"
    client.post("/jobs/new/", fields_of(client.get(address)))
    assert {item["kind"] for item in BenchmarkJob.objects.get().plan["work"]} == {"convolution"}


def test_the_number_of_queries_does_not_grow_with_the_jobs(
    operator, catalogue, client, django_assert_max_num_queries
):
    machine: Machine = catalogue["aws-g4dn.xlarge"]
    for _ in range(5):
        cloud_job(machine, state="failed", reason="deadline")
    with django_assert_max_num_queries(36):
        client.get(PLAN)
