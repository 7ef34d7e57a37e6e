"""What visitors ask for reaches the floor below, once for each answered question."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from benchmarking.tests import factories
from predictions import demand
from predictions.demand import counts_as_demand


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []

    def note(machines: list[str], architectures: list[str], visitor: str) -> None:
        calls.append((machines, architectures, visitor))

    monkeypatch.setattr(demand, "note_requests", note)
    return calls


@pytest.mark.parametrize(("status", "count"), [(200, 1), (304, 1), (400, 0), (500, 0)])
def test_an_answered_question_counts(noted: list[Any], status: int, count: int) -> None:
    @counts_as_demand
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse("answer", status=status)

    query = "/?architecture=resnet50&machine=aws-p3.2xlarge&machine=local&epochs=3"
    response = view(RequestFactory().get(query, REMOTE_ADDR="203.0.113.7"))

    assert response.content == b"answer"
    wanted = (["aws-p3.2xlarge", "local"], ["resnet50"], "203.0.113.7")
    assert noted == [wanted] * count


@pytest.mark.django_db
def test_the_forecast_page_counts_also_where_its_answer_was_kept(
    client: Client, noted: list[Any]
) -> None:
    factories.create_architecture(slug="tinynet", image_size=224)
    factories.create_machine(slug="aws-p3.2xlarge")
    query = "/?architecture=tinynet&machine=aws-p3.2xlarge"

    for _ in range(2):
        assert client.get(query).status_code == 200
    assert client.get("/?architecture=no-such&machine=aws-p3.2xlarge").status_code == 400

    assert noted == [(["aws-p3.2xlarge"], ["tinynet"], "127.0.0.1")] * 2
