"""The committed schema is the one that the code gives."""

from __future__ import annotations

import io

from django.conf import settings
from django.core.management import call_command

from predictions.api.schema import drop_column_limits


def test_the_committed_schema_is_current():
    generated = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=generated)
    committed = (settings.BASE_DIR / "docs" / "openapi.yaml").read_text(encoding="utf-8")
    assert generated.getvalue() == committed, "run script/openapi and commit docs/openapi.yaml"


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
