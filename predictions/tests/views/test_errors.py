"""What breaks is said with an id that the log has: on a page, or as a problem document."""

from __future__ import annotations

import html
import io
import json
import logging
import re
import uuid
from collections.abc import Iterator
from unittest.mock import patch
from urllib.parse import urlencode

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client, RequestFactory

from predictions.views.errors import csrf_failure

QUERY = "architecture=resnet50&machine=reference-cpu"
BROKEN = "the disk is full"
PROGRAMS = ["/api/v1/predictions/", "/api/v1/advice/", "/forecast.json", "/forecast.csv"]


@pytest.fixture
def broken_site(catalogue):
    """A client of a site whose every forecast breaks."""
    with (
        patch("predictions.views.forecast.make_forecast", side_effect=RuntimeError(BROKEN)),
        patch("predictions.api.views.make_forecast", side_effect=RuntimeError(BROKEN)),
    ):
        yield Client(raise_request_exception=False)


def error_line(caplog: pytest.LogCaptureFixture) -> str:
    """The one line of the log that has a traceback, with it."""
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.levelno == logging.ERROR
    return f"{record.getMessage()}\n{logging.Formatter().formatException(record.exc_info)}"


@pytest.mark.parametrize("path", PROGRAMS)
def test_a_program_gets_a_problem_document_with_an_id(broken_site, caplog, path):
    response = broken_site.get(f"{path}?{QUERY}")
    assert (response.status_code, response["Content-Type"]) == (500, "application/problem+json")
    problem = json.loads(response.content)
    error_id = problem["error_id"]
    assert re.fullmatch("[0-9a-f]{12}", error_id)
    assert problem == {
        "type": "about:blank",
        "title": "Internal Server Error",
        "status": 500,
        "detail": "Something broke on our side. The error is in the log. Try again; if it stays, "
        f"tell the operator this id: {error_id}",
        "errors": [],
        "error_id": error_id,
    }
    logged = error_line(caplog)
    assert logged.startswith(f"Internal Server Error, id {error_id}: {path}\nTraceback")
    assert logged.endswith(f"RuntimeError: {BROKEN}")


def test_u6_a_person_gets_a_page_with_an_id_and_what_to_do(broken_site, caplog):
    response = broken_site.get(f"/?{QUERY}")
    text = html.unescape(response.content.decode())
    assert (response.status_code, response["Content-Type"]) == (500, "text/html; charset=utf-8")
    (error_id,) = re.findall("<code>([0-9a-f]{12})</code>", text)
    assert "Try again; if it stays, tell the operator this id:" in text
    assert BROKEN not in text and "Traceback" not in text
    assert f"id {error_id}: /\nTraceback" in error_line(caplog)


def test_a_database_that_is_gone_still_leaves_a_page(broken_site, caplog):
    broken_site.force_login(User.objects.create_user("operator", is_staff=True))
    broken = OperationalError("unable to open database file")
    with patch("django.db.backends.utils.CursorWrapper.execute", side_effect=broken):
        response = broken_site.get(f"/?{QUERY}")
    assert response.status_code == 500
    assert "Something broke on our side" in response.content.decode()


def test_where_the_page_itself_is_broken_a_line_says_it(broken_site, caplog):
    missing = ValueError("Missing staticfiles manifest entry for 'css/site.css'")
    with patch("django.templatetags.static.StaticNode.render", side_effect=missing):
        response = broken_site.get(f"/?{QUERY}")
    assert (response.status_code, response["Content-Type"]) == (500, "text/plain; charset=utf-8")
    text = response.content.decode()
    assert re.fullmatch(
        r"Something broke on our side\. The error is in the log\. Try again; if it stays, tell the "
        r"operator this id: [0-9a-f]{12}\n",
        text,
    )
    error_id = text.split()[-1]
    logged = [record.getMessage() for record in caplog.records if record.exc_info]
    assert logged == [
        f"the error page of {error_id} is broken too",
        f"Internal Server Error, id {error_id}: /",
    ]


@pytest.mark.parametrize("path", ["/api/v2/machines/", "/api/", "/api/v1/", "/api/v1/machine/x/"])
@pytest.mark.parametrize("method", ["get", "post", "delete"])
def test_no_endpoint_below_api_is_a_problem_document(db, path, method):
    response = getattr(Client(), method)(path)
    assert (response.status_code, response["Content-Type"]) == (404, "application/problem+json")
    assert json.loads(response.content) == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "There is no such endpoint; /api/docs/ lists them all.",
        "errors": [],
    }


def test_other_pages_that_are_missing_stay_pages(db, client):
    response = client.get("/forecast.xml")
    assert response["Content-Type"] == "text/html; charset=utf-8"
    assert "No such page" in response.content.decode()


# Forms without a token of ours ------------------------------------------------------------------


@pytest.fixture
def strict(catalogue) -> Client:
    """A client whose forms are checked, and that is signed in as an operator."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("operator"))
    return client


@pytest.mark.parametrize(
    "path",
    ["/", "/jobs/new/", f"/jobs/{uuid.uuid4()}/cancel/", "/architectures/own/", "/admin/login/"],
)
def test_u6_a_form_without_a_token_gets_a_page_that_says_what_to_do(strict, path):
    response = strict.post(path, {"machine": "aws-g4dn.xlarge"})
    text = html.unescape(response.content.decode())
    assert (response.status_code, response["Content-Type"]) == (403, "text/html; charset=utf-8")
    assert "<h1>That form could not be trusted</h1>" in text
    assert "Nothing was changed. Go back, load the page again and send it once more" in text
    assert '<header class="site-header">' in text


@pytest.mark.parametrize("path", ["/forecast.json", "/forecast.csv", "/api/v1/jobs/", "/api/v2/"])
def test_a_program_without_a_token_gets_a_problem_document(strict, path):
    response = strict.post(path, {"machine": "aws-g4dn.xlarge"}, "application/json")
    problem = json.loads(response.content)
    status = 404 if path == "/api/v2/" else 403
    assert (response.status_code, response["Content-Type"]) == (status, "application/problem+json")
    assert (problem["status"], problem["errors"]) == (status, [])
    assert "CSRF" in problem["detail"] or status == 404


def test_whatever_lies_below_api_gets_a_problem_document():
    response = csrf_failure(RequestFactory().post("/api/v3/anything/"), reason="no cookie")
    assert (response.status_code, response["Content-Type"]) == (403, "application/problem+json")


# Refusals in the log ----------------------------------------------------------------------------


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the site writes to its log, as it is configured."""
    (handler,) = [one for one in logging.getLogger().handlers if one.name == "stderr"]
    assert isinstance(handler, logging.StreamHandler)
    text = io.StringIO()
    before = handler.setStream(text)
    yield text
    handler.setStream(before)


MANY = [(f"name{number}", "x") for number in range(settings.DATA_UPLOAD_MAX_NUMBER_FIELDS + 1)]
PAGES = ["/", "/forecast/table/", "/machines/", "/architectures/", "/jobs/", "/jobs/new/"]
ENDPOINTS = [*PROGRAMS, "/api/v1/devices/", "/api/v1/prices/", "/api/v1/jobs/quote/"]
# What reads the form of a request at all; elsewhere a POST is refused before.
FORMS = ["/jobs/new/", "/architectures/own/", "/admin/login/"]


def assert_refused_in_one_line(response, log: str, path: str) -> None:
    kind = "application/problem+json" if path in ENDPOINTS else "text/html; charset=utf-8"
    assert (response.status_code, response["Content-Type"]) == (400, kind)
    assert "It holds too many values" in html.unescape(response.content.decode())
    refusal, request = log.splitlines()
    assert "django.security.TooManyFieldsSent" in refusal
    assert "DATA_UPLOAD_MAX_NUMBER_FIELDS" in refusal
    assert f" {path} 400 in " in request


@pytest.mark.parametrize("path", [*PAGES, *ENDPOINTS])
def test_too_many_values_of_an_address_are_one_line_in_the_log(catalogue, client, written, path):
    client.force_login(User.objects.create_superuser("operator"))
    response = client.get(f"{path}?{urlencode(MANY)}")
    assert_refused_in_one_line(response, written.getvalue(), path)


@pytest.mark.parametrize("is_multipart", [False, True])
@pytest.mark.parametrize("path", FORMS)
def test_too_many_fields_of_a_form_are_one_line_in_the_log(
    catalogue, client, written, path, is_multipart
):
    client.force_login(User.objects.create_superuser("operator"))
    if is_multipart:
        response = client.post(path, dict(MANY))
    else:
        response = client.post(path, urlencode(MANY), "application/x-www-form-urlencoded")
    assert_refused_in_one_line(response, written.getvalue(), path)


def test_too_many_fields_beside_an_uploaded_file_are_refused_without_a_traceback(
    catalogue, client, written
):
    response = client.post("/api/v1/uploads/", dict(MANY))
    assert (response.status_code, response["Content-Type"]) == (400, "application/problem+json")
    assert json.loads(response.content)["detail"] == "The form holds too many values."
    assert "Traceback" not in written.getvalue()
    assert len(written.getvalue().splitlines()) == 2


def test_what_is_our_fault_keeps_its_traceback_in_the_log(broken_site, written):
    broken_site.get(f"/?{QUERY}")
    assert "Traceback (most recent call last)" in written.getvalue()
    assert f"RuntimeError: {BROKEN}" in written.getvalue()


def test_whoever_may_not_see_a_page_is_one_line_in_the_log(catalogue, client, written):
    client.force_login(User.objects.create_user("visitor"))
    assert client.get("/jobs/").status_code == 403
    refusal, request = written.getvalue().splitlines()
    assert refusal.endswith("django.request Forbidden (Permission denied): /jobs/")
    assert " GET /jobs/ 403 in " in request
