"""Benchmark jobs in a real browser: plan, confirm, watch to the end, cancel."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.conf import settings as site_settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from playwright.sync_api import expect

from benchmarking.jobs.advance import advance_job
from benchmarking.jobs.lifecycle import write_event
from benchmarking.models import BenchmarkJob, IterationTiming
from benchmarking.tests.factories import environment_line
from benchmarking.tests.jobs.fake_host import FakeHost
from benchmarking.tests.probe_lines import as_bytes, done_line, iteration_line
from predictions.tests.jobs.conftest import cloud_job, launch, limits  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PLAN = "/jobs/new/?machine=aws-g4dn.xlarge&architecture=resnet50&batch_sizes=1"


# A page asks so often here, and a poll that should not be would come within twice that time.
POLL_SECONDS = 1
LONG_ENOUGH_MS = 2_000


@pytest.fixture
def signed_in(visit, limits, monkeypatch):  # noqa: F811
    """A window of an operator's browser."""
    monkeypatch.setattr("predictions.views.jobs.POLL_SECONDS", POLL_SECONDS)
    user = User.objects.create_superuser("operator")
    client = Client()
    client.force_login(user)
    cookie = client.cookies[site_settings.SESSION_COOKIE_NAME].value

    def start(**options: Any):
        window = visit(**options)
        window.page.context.add_cookies(
            [{"name": site_settings.SESSION_COOKIE_NAME, "value": cookie, "url": window.base}]
        )
        return window

    return start


def advance(job: BenchmarkJob, host: FakeHost, until: str) -> None:
    """Step by step, as workers would, without waiting for the steps to be due."""
    for _ in range(30):
        BenchmarkJob.objects.update(due_at=timezone.now())
        advance_job(job.pk, host=host)
        job.refresh_from_db()
        if job.state == until:
            return
    raise AssertionError(f"the job is still {job.state}")


def end(page: Any) -> None:
    """Let the page see that its job is over, so that no poll meets the end of the test."""
    BenchmarkJob.objects.update(state="succeeded", reason="completed")
    expect(page.locator("[hx-get]")).to_have_count(0)


def environment_of_a_t4() -> dict[str, Any]:
    stack = {**environment_line()["stack"], "cuda_version": "12.6"}
    return environment_line(machine="aws-g4dn.xlarge", stack=stack, gpu={"name": "Tesla T4"})


@pytest.fixture
def t4_reports(catalogue) -> None:
    device = catalogue["aws-g4dn.xlarge"].device
    device.reported_name = "Tesla T4"
    device.save()


def test_a_job_is_planned_confirmed_and_watched_to_its_end(signed_in, t4_reports):
    window = signed_in()
    page = window.page
    window.open("/jobs/")
    page.get_by_role("link", name="Plan a job").click()
    page.get_by_label("Measure on").select_option("aws-g4dn.xlarge")
    page.locator(".picker summary").click()
    page.get_by_role("checkbox", name="resnet50").check()
    page.get_by_text("Batch sizes, image size, precision and more").click()
    page.get_by_label("Batch sizes", exact=True).fill("1")
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.get_by_role("heading", level=2).first).to_have_text(
        "9 timings are missing on aws-g4dn.xlarge"
    )
    assert page.url == f"{window.base}{PLAN}&price=on-demand" or "max_usd" not in page.url
    page.get_by_role("button", name="Start it for at most").click()
    page.wait_for_url(re.compile("/jobs/[0-9a-f-]{36}/"))
    expect(page.locator("#progress h2")).to_have_text("Queued")

    job = BenchmarkJob.objects.get()
    host = FakeHost()
    advance(job, host, "running")
    expect(page.locator("#progress h2")).to_have_text("Running")
    expect(page.locator("#announcement")).to_have_text(
        "Running. The machine measures. Each timing is stored as it is fetched."
    )
    expect(page.locator("#events li").first).to_contain_text("Running")
    host.say(
        as_bytes(
            environment_of_a_t4(),
            iteration_line(architecture="resnet50", image_size=224, batch_size=1),
        )
    )
    BenchmarkJob.objects.update(due_at=timezone.now())
    advance_job(job.pk, host=host)
    expect(page.locator("#progress dd").first).to_have_text("1 of 4")
    host.say(as_bytes(done_line()))
    host.end()
    advance(job, host, "succeeded")
    expect(page.locator("#progress h2")).to_have_text("Succeeded")
    expect(page.get_by_role("button", name="Cancel the job")).to_have_count(0)

    # Nothing is asked any more once it is over.
    assert page.locator("[hx-get]").count() == 0
    asked = len(window.addresses)
    page.wait_for_timeout(LONG_ENOUGH_MS)
    assert len(window.addresses) == asked
    assert window.messages == []
    assert window.foreign_addresses == []
    assert IterationTiming.objects.count() == 1


def test_u7_nobody_asks_while_nobody_looks(signed_in, catalogue):
    job = cloud_job(catalogue["aws-g4dn.xlarge"])
    write_event(job, new_state="running")
    window = signed_in()
    page = window.page
    page.add_init_script(
        "let away = false;"
        "Object.defineProperty(document, 'hidden', { get: () => away });"
        "window.look = (looks) => { away = !looks;"
        " document.dispatchEvent(new Event('visibilitychange')); };"
    )
    window.open(f"/jobs/{job.pk}/")
    page.evaluate("look(false)")

    def polls() -> int:
        return sum("/progress/" in address for address in window.addresses)

    page.wait_for_timeout(500)
    before = polls()
    page.wait_for_timeout(LONG_ENOUGH_MS)
    assert polls() == before
    with page.expect_response("**/progress/**") as answer:
        page.evaluate("look(true)")
    assert answer.value.status == 200
    end(page)
    assert window.messages == []


def test_u10_a_double_click_makes_one_job(signed_in):
    window = signed_in()
    window.open(PLAN)
    window.page.get_by_role("button", name="Start it for at most").dblclick()
    window.page.wait_for_url(re.compile("/jobs/[0-9a-f-]{36}/"))
    assert BenchmarkJob.objects.count() == 1
    # Whoever goes back finds the plan made anew: the job measures all of it.
    window.page.go_back()
    expect(window.page.get_by_role("heading", level=2).first).to_have_text(
        "Nothing is missing on aws-g4dn.xlarge"
    )
    expect(window.page.locator("#confirm-form")).to_have_count(0)


def test_u6_without_scripts_a_job_is_started_watched_by_hand_and_cancelled(signed_in):
    window = signed_in(java_script_enabled=False)
    page = window.page
    window.open(PLAN)
    page.get_by_role("button", name="Start it for at most").click()
    expect(page.locator("#progress h2")).to_have_text("Queued")
    BenchmarkJob.objects.update(state="running")
    page.get_by_role("link", name="Load it again").click()
    expect(page.locator("#progress h2")).to_have_text("Running")
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.locator("#progress h2")).to_have_text("Cleaning up")
    job = BenchmarkJob.objects.get()
    assert (job.state, job.reason) == ("cleaning", "cancelled")
    expect(page.locator("#events li").first).to_contain_text("Cancelled by operator.")


@pytest.fixture
def paths(catalogue) -> list[str]:
    """Every page of jobs: a list, a plan, wrong options, jobs under way and ended, spending."""
    running = cloud_job(catalogue["aws-g4dn.xlarge"])
    launch(running)
    write_event(running, new_state="running", message="It measures.")
    write_event(running, message="Traceback (most recent call last):\n  File x\nOSError: gone")
    ended = cloud_job(catalogue["aws-g4dn.xlarge"], state="failed", reason="deadline")
    return [
        "/jobs/",
        "/jobs/new/",
        PLAN,
        f"{PLAN}&max_usd=none",
        f"/jobs/{running.pk}/",
        f"/jobs/{ended.pk}/",
        "/jobs/spending/",
    ]


def test_u8_no_page_of_jobs_is_wider_than_a_phone(signed_in, paths):
    window = signed_in(viewport={"width": 360, "height": 740}, color_scheme="dark")
    for path in paths:
        window.open(path)
        assert window.page.evaluate("document.documentElement.scrollWidth") == 360, path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_u8_axe_finds_nothing_serious_on_pages_of_jobs(signed_in, paths, scheme):
    from axe_playwright_python.sync_playwright import Axe

    window = signed_in(color_scheme=scheme)
    for path in paths:
        window.open(path)
        for folded in window.page.locator("main details").all():
            folded.evaluate("one => { one.open = true; }")
        serious = [
            (one["id"], [node["html"] for node in one["nodes"]][:3])
            for one in Axe().run(window.page).response["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == [], path
    # The page of wrong options is a 400, as it should be.
    assert [text for text in window.messages if "400 (Bad Request)" not in text] == []
