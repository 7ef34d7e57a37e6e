"""The API beside the forecasts: lists, filters, problem documents, the schema."""

from __future__ import annotations

import json

import pytest

from predictions.rows import ROW_KEYS


@pytest.fixture
def get(catalogue, client):
    """Fetch a JSON document."""

    def fetch(path: str):
        response = client.get(f"/api/v1/{path}")
        assert response.status_code == 200, response.content
        return response.json()

    return fetch


def test_architectures_can_be_filtered(get):
    assert get("architectures/")["count"] == 4
    found = get("architectures/?slug=inception_v3&image_size=299")["results"]
    assert [(one["slug"], one["image_size"], one["multiply_adds"]) for one in found] == [
        ("inception_v3", 299, 5_713_216_096)
    ]


def test_machines_name_their_device(get):
    found = get("machines/?provider=aws&availability=current")["results"]
    assert [(one["slug"], one["device"], one["device_count"]) for one in found] == [
        ("aws-g4dn.xlarge", "t4", 1),
        ("aws-p4d.24xlarge", "a100-sxm4-40gb", 8),
    ]


def test_devices_and_prices(get):
    assert [one["slug"] for one in get("devices/")["results"]] == [
        "a100-sxm4-40gb",
        "reference-cpu",
        "t4",
    ]
    prices = get("prices/?machine=aws-g4dn.xlarge")["results"]
    assert [(one["machine"], one["usd_per_hour"], one["as_of"]) for one in prices] == [
        ("aws-g4dn.xlarge", 0.526, "2026-01-01")
    ]


def test_lists_are_paginated(get):
    first = get("machines/?limit=2")
    assert first["count"] == 6 and len(first["results"]) == 2
    assert first["next"].endswith("limit=2&offset=2")


def test_writing_is_refused_with_a_problem_document(catalogue, client):
    response = client.post("/api/v1/predictions/", {}, content_type="application/json")
    assert response.status_code in (403, 405)
    assert response["Content-Type"] == "application/problem+json"
    assert json.loads(response.content)["status"] == response.status_code


def test_an_unchanged_answer_is_not_sent_again(catalogue, client):
    path = "/api/v1/predictions/?architecture=resnet50&machine=reference-cpu"
    first = client.get(path)
    again = client.get(path, headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_schema_has_the_rows_of_a_forecast(client, db):
    response = client.get("/api/schema/?format=json")
    schema = json.loads(response.content)
    assert list(schema["components"]["schemas"]["ForecastRow"]["properties"]) == list(ROW_KEYS)
    operation = schema["paths"]["/api/v1/predictions/"]["get"]
    assert {parameter["name"] for parameter in operation["parameters"]} >= {
        "architecture",
        "machine",
        "device",
        "batch_sizes",
        "examples",
        "epochs",
        "precision",
        "image_size",
        "price",
        "region",
        "loader_images_per_second",
        "max_usd",
    }


def test_the_documentation_loads_nothing_from_elsewhere(client, db):
    page = client.get("/api/docs/").content.decode()
    assert "swagger-ui" in page
    assert "https://" not in page and "http://" not in page


def test_advice_gives_the_answers_of_the_page(get):
    answer = get(
        "advice/?architecture=resnet50&machine=aws-g4dn.xlarge&machine=aws-p4d.24xlarge"
        "&machine=gcp-unpriced&batch_sizes=8,64"
    )
    (advice,) = answer["answers"]
    assert answer["query"]["batch_sizes"] == [8, 64]
    assert (advice["fastest"]["row"]["machine"], advice["fastest"]["row"]["batch_size"]) == (
        "aws-p4d.24xlarge",
        64,
    )
    assert advice["fastest"]["equal_places"] == []
    assert advice["cheapest"]["row"]["machine"] == "aws-g4dn.xlarge"
    assert [(point["place"], point["batch_size"]) for point in advice["front"]] == [
        ("aws-p4d.24xlarge", 64),
        ("aws-g4dn.xlarge", 64),
    ]


def test_advice_refuses_like_the_page(catalogue, client):
    response = client.get("/api/v1/advice/?architecture=resnet5&machine=reference-cpu")
    assert response.status_code == 400
    assert json.loads(response.content)["errors"][0]["parameter"] == "architecture"


@pytest.mark.parametrize(
    ("page", "shown"), [("limit=" + "9" * 30, 6), ("limit=5&offset=" + "9" * 5000, 0)]
)
def test_absurd_pages_are_cut_down(get, page, shown):
    answer = get(f"machines/?{page}")
    assert (answer["count"], len(answer["results"])) == (6, shown)


def test_a_filter_that_is_no_number_is_refused_in_a_sentence(catalogue, client):
    response = client.get("/api/v1/architectures/?image_size=large")
    assert response.status_code == 400
    assert json.loads(response.content) == {
        "type": "about:blank",
        "title": "Bad Request",
        "status": 400,
        "detail": "Enter a number.",
        "errors": [{"parameter": "image_size", "detail": "Enter a number."}],
    }


@pytest.mark.parametrize(
    "path",
    [
        "architectures/?slug=%00",
        "architectures/?image_size=99999999999999999999",
        "machines/?provider=%00",
        "prices/?machine__slug=%00",
        "predictions/?architecture=%00&machine=%00",
        "advice/?architecture=resnet50&machine=reference-cpu&batch_sizes=%00",
    ],
)
def test_odd_texts_never_break_it(catalogue, client, path):
    response = client.get(f"/api/v1/{path}")
    assert response.status_code == 200 or (
        response.status_code == 400 and response.json()["errors"]
    )
