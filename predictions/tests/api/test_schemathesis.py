"""Requests that schemathesis makes up from the committed schema: none breaks the server.

And each is answered with a status that the schema declares for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from django.conf import settings
from django.contrib.auth.models import User
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from rest_framework.authtoken.models import Token
from rest_framework.throttling import SimpleRateThrottle
from schemathesis.generation import GenerationMode

from benchmarking.tests.factories import create_job

SCHEMA = schemathesis.openapi.from_path(settings.BASE_DIR / "docs" / "openapi.yaml")
SCHEMA.app = get_wsgi_application()
OPERATIONS = {
    f"{operation.method.upper()} {operation.path}": operation
    for operation in (result.ok() for result in SCHEMA.get_all_operations())
}
EXAMPLES = 20
# Any text is a token, so nothing about these requests can be made to break the schema.
WITHOUT_WRONG_REQUESTS = "/uploads/{token}/"
CASES = [
    (name, mode)
    for name in OPERATIONS
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or not name.endswith(WITHOUT_WRONG_REQUESTS)
]


@pytest.fixture
def kept_connection() -> Iterator[None]:
    """Requests leave the test's own database connection open, as Django's test client does."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def token(run, kept_connection, monkeypatch) -> str:
    """An operator's token, on a site with rows to find, which answers however often it is asked."""
    monkeypatch.setitem(SimpleRateThrottle.THROTTLE_RATES, "anon", None)
    create_job()
    user = User.objects.create_user("operator", is_staff=True)
    return str(Token.objects.create(user=user).key)


@pytest.mark.parametrize(
    ("name", "mode"), CASES, ids=[f"{name} {mode.value}" for name, mode in CASES]
)
def test_no_request_breaks_the_server(name, mode, token):
    operation = OPERATIONS[name]
    statuses = []

    @given(case=operation.as_strategy(generation_mode=mode))
    @hypothesis_settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        # The curl command in the failure is enough; making it shorter takes minutes.
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case):
        response = case.call(headers={"Authorization": f"Token {token}"})
        statuses.append(response.status_code)
        assert response.status_code < 500, (case.as_curl_command(), response.text)

    ask()
    assert statuses
    # A method that an endpoint lacks belongs to none of its operations.
    assert {*statuses} <= {*map(int, operation.definition.raw["responses"]), 405}
