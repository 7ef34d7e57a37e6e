"""What breaks is said with an id that the log has: on a page, or as a problem document."""

from __future__ import annotations

import html
import json
import logging
import re
from unittest.mock import patch

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client

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
