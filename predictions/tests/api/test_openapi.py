"""The committed schema is the one that the code gives."""

from __future__ import annotations

import io

from django.conf import settings
from django.core.management import call_command


def test_the_committed_schema_is_current():
    generated = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=generated)
    committed = (settings.BASE_DIR / "docs" / "openapi.yaml").read_text(encoding="utf-8")
    assert generated.getvalue() == committed, "run script/openapi and commit docs/openapi.yaml"
