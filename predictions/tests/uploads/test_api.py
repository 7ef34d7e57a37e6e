"""Own networks through the API."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import time_machine

from predictions.models import OwnNetwork
from predictions.tests.uploads.conftest import onnx_file, trace_text
from predictions.uploads.throttling import UploadThrottle

UPLOADS = "/api/v1/uploads/"


@pytest.fixture
def send(catalogue, client):
    """POST a file; ``key`` is the Idempotency-Key."""

    def post(file=None, key: str | None = None, **data):
        headers = {} if key is None else {"Idempotency-Key": key}
        return client.post(UPLOADS, {"file": file or onnx_file(), **data}, headers=headers)

    return post


def problem(response) -> dict:
    assert response["Content-Type"] == "application/problem+json"
    document = response.json()
    assert document["status"] == response.status_code
    assert document["title"] and document["detail"]
    return document


def test_an_upload_is_described(send, client):
    with time_machine.travel(datetime(2026, 11, 29, tzinfo=UTC), tick=False):
        response = send()
        assert response.status_code == 201
        document = response.json()
        token = document["token"]
        assert document == {
            "token": token,
            "architecture": f"own-{token}",
            "label": "my net",
            "image_size": 32,
            "parameters": 322,
            "multiply_adds": document["multiply_adds"],
            "saved_bytes_per_example": document["saved_bytes_per_example"],
            "minimum_batch_size": 1,
            "convolution_layers": 1,
            "note": "",
            "page": f"/own/{token}/",
            "uploaded_at": "2026-11-29T00:00:00Z",
            "expires_at": "2026-12-29T00:00:00Z",
        }
        assert client.get(f"{UPLOADS}{token}/").json() == document
    assert document["multiply_adds"] == OwnNetwork.objects.get().architecture.multiply_adds


def test_delete(send, client):
    token = send().json()["token"]
    assert client.delete(f"{UPLOADS}{token}/").status_code == 204
    assert OwnNetwork.objects.count() == 0
    for method in (client.get, client.delete):
        response = method(f"{UPLOADS}{token}/")
        assert response.status_code == 404
        assert problem(response)["detail"].startswith("No such private network.")


def test_the_same_key_and_file_give_the_same_answer(send):
    first, again = send(key="k-1"), send(key="k-1")
    assert (again.status_code, again.json()) == (201, first.json())
    assert OwnNetwork.objects.count() == 1


def test_the_same_key_with_another_file_is_refused(send):
    from django.core.files.uploadedfile import SimpleUploadedFile

    send(key="k-1")
    response = send(SimpleUploadedFile("x.json", trace_text().encode()), key="k-1")
    assert response.status_code == 422
    assert problem(response)["detail"] == (
        "This Idempotency-Key was used for another file; take a new one."
    )
    assert OwnNetwork.objects.count() == 1


def test_a_bad_file(send):
    from django.core.files.uploadedfile import SimpleUploadedFile

    response = send(SimpleUploadedFile("x.json", b'{"schema": 99}'))
    assert response.status_code == 400
    document = problem(response)
    assert document["code"] == "bad_trace"
    assert document["errors"] == [{"parameter": "file", "detail": document["detail"]}]
    assert OwnNetwork.objects.count() == 0


@pytest.mark.parametrize("size", ["0", "x", "1e9", "99999"])
def test_a_bad_image_size(send, size):
    response = send(image_size=size)
    assert response.status_code == 400
    assert problem(response)["errors"] == [
        {
            "parameter": "image_size",
            "detail": "The image size must be a whole number from 1 to 4,096 pixels.",
        }
    ]


@pytest.mark.parametrize("declared", [2**26 + 2**20 + 1, 2**50])
def test_too_large(catalogue, client, declared):
    response = client.post(UPLOADS, {"file": onnx_file()}, CONTENT_LENGTH=str(declared))
    assert response.status_code == 413
    assert problem(response)["code"] == "too_large"


def test_not_a_form(catalogue, client):
    response = client.post(UPLOADS, {}, content_type="application/json")
    assert response.status_code == 415
    problem(response)
    response = client.post(UPLOADS, b"--x", content_type="multipart/form-data")
    assert response.status_code == 400
    problem(response)


def test_throttled(send, monkeypatch):
    monkeypatch.setattr(UploadThrottle, "rate", "1/hour")
    assert send().status_code == 201
    response = send()
    assert response.status_code == 429
    assert int(response["Retry-After"]) > 3500
    problem(response)


def test_the_schema_names_the_uploads(client):
    response = client.get("/api/schema/?format=json", headers={"Accept": "application/json"})
    paths = response.json()["paths"]
    assert set(paths["/api/v1/uploads/"]) == {"post"}
    assert set(paths["/api/v1/uploads/{token}/"]) == {"get", "delete"}
    content = paths["/api/v1/uploads/"]["post"]["requestBody"]["content"]
    assert set(content) == {"multipart/form-data"}
