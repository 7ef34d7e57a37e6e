"""Secrets of private links stay out of the log."""

from __future__ import annotations

import logging

import pytest

from predictor_site.request_log import PrivateLinkFilter

TOKEN = "AbCdEf-hIjKlMn_pQrStUv"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/machines/", "/machines/"),
        (f"/own/{TOKEN}/keep/", "/own/.../keep/"),
        (f"/api/v1/uploads/{TOKEN}/", "/api/v1/uploads/.../"),
        (f"/?architecture=own-{TOKEN}&epochs=9", "/?architecture=own-...&epochs=9"),
        ("/static/js/own-abcdef.js", "/static/js/own-abcdef.js"),
    ],
)
def test_secrets_become_dots_and_the_rest_stays(path, shown):
    record = logging.LogRecord("x", logging.INFO, "", 0, "GET %s %s", (path, 200), None)
    vars(record)["path"] = path
    assert PrivateLinkFilter().filter(record)
    assert (record.getMessage(), vars(record)["path"]) == (f"GET {shown} 200", shown)
