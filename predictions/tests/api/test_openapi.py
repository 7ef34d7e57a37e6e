"""The committed schema is the one that the code gives."""

from __future__ import annotations

import io

import pytest
import yaml
from django.conf import settings
from django.core.management import call_command

from predictions.api.schema import drop_column_limits

SCHEMA = yaml.safe_load((settings.BASE_DIR / "docs" / "openapi.yaml").read_text(encoding="utf-8"))


def test_the_committed_schema_is_current():
    generated = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=generated)
    committed = (settings.BASE_DIR / "docs" / "openapi.yaml").read_text(encoding="utf-8")
    assert generated.getvalue() == committed, "run script/openapi and commit docs/openapi.yaml"


OPERATIONS = [
    (path, method)
    for path, operations in SCHEMA["paths"].items()
    for method in operations
    if method != "parameters"
]


REFUSED_POSTS = {
    "/api/v1/uploads/": {"413", "415", "422"},
    "/api/v1/jobs/": {"409", "415", "422"},
    "/api/v1/jobs/{id}/cancel/": set(),
    "/api/v1/jobs/{id}/retry/": {"409"},
}


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_u9_every_operation_declares_its_refusals(path, method):
    responses = SCHEMA["paths"][path][method]["responses"]
    expected = {"400", "406", "429", "500"}
    if "{" in path:
        expected |= {"404"}
    if path.startswith("/api/v1/jobs/"):
        expected |= {"401", "403"}
    if method == "post":
        expected |= REFUSED_POSTS[path]
    refusals = {status: response for status, response in responses.items() if status >= "400"}
    assert refusals.keys() == expected
    for response in refusals.values():
        declared = SCHEMA["components"]["responses"][response["$ref"].rpartition("/")[2]]
        assert list(declared["content"]) == ["application/problem+json"]
        assert declared["description"].endswith(".")


def test_the_documentation_has_a_title(client, db):
    assert "<title>Epochcast API</title>" in client.get("/api/docs/").content.decode()


def test_limits_of_a_database_column_stay_out():
    schema = {
        "id": {"type": "integer", "maximum": 2**63 - 1, "minimum": 0, "format": "int64"},
        "count": [{"type": "integer", "maximum": 2147483647, "minimum": -(2**31)}],
        "page": {"type": "integer", "maximum": 1000},
        "maximum": 2147483647,
    }
    assert drop_column_limits(schema) == {
        "id": {"type": "integer", "minimum": 0},
        "count": [{"type": "integer"}],
        "page": {"type": "integer", "maximum": 1000},
        "maximum": 2147483647,
    }
