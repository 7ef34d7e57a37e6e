"""Stored timings: what was measured, where, with what; found by the names of the page."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarking.models import Architecture
from benchmarking.specs import ConvolutionSpec, ConvolutionUse, Pass
from benchmarking.tests.factories import (
    create_architecture,
    create_iteration_timing,
    create_layer,
    create_layer_timing,
    create_run,
)

OWN_LAYER = ConvolutionSpec(5, 9, 9, 7, 1, 1, 1, 1, 0, 0)


@pytest.fixture
def get(run, client):
    """Fetch a list of timings."""

    def fetch(path: str):
        response = client.get(f"/api/v1/timings/{path}")
        assert response.status_code == 200, response.content
        return response.json()

    return fetch


def test_an_iteration_names_its_run_and_stack(run, get):
    answer = get("iterations/?architecture=tinynet&batch_size=2")
    (timing,) = answer["results"]
    assert timing.pop("samples_ms") == [timing["milliseconds"]]
    assert timing == {
        "architecture": "tinynet",
        "image_size": 32,
        "batch_size": 2,
        "optimizer": "sgd",
        "round": 1,
        "milliseconds": run.iteration_timings.get(batch_size=2).milliseconds,
        "peak_memory_bytes": None,
        "run": {
            "id": str(run.pk),
            "started_at": "2026-03-01T12:00:00Z",
            "machine": "aws-g4dn.xlarge",
            "device": "t4",
            "stack": run.stack.to_spec().label,
            "precision": "fp32",
        },
    }


def test_layers_of_an_architecture_come_once_each(run, get):
    layer = create_layer(OWN_LAYER)
    create_architecture(
        slug="ownlayers",
        uses=[
            ConvolutionUse(OWN_LAYER, count=1, needs_input_gradient=False),
            ConvolutionUse(OWN_LAYER, count=2),
        ],
    )
    create_layer_timing(run=run, layer=layer, batch_size=4, samples_ms=[3.0, 3.0, 9.0])
    (timing,) = get("layers/?architecture=ownlayers")["results"]
    assert (timing["layer"], timing["batch_size"], timing["operation"]) == (
        OWN_LAYER.key,
        4,
        Pass.FORWARD.value,
    )
    assert (timing["milliseconds"], timing["samples_ms"]) == (3.0, [3.0, 3.0, 9.0])
    assert get("layers/?batch_size=1")["count"] == run.layer_timings.filter(batch_size=1).count()


def test_machine_and_device_choose_runs(catalogue, run, get):
    elsewhere = create_run(machine=catalogue["azure-undated"])
    architecture = Architecture.objects.get(slug="tinynet")
    create_iteration_timing(run=elsewhere, architecture=architecture, batch_size=8)
    assert get("iterations/?device=t4")["count"] == 3
    found = get("iterations/?machine=azure-undated")["results"]
    assert [(one["batch_size"], one["run"]["id"]) for one in found] == [(8, str(elsewhere.pk))]
    assert get(f"iterations/?run={elsewhere.pk}")["results"] == found
    assert get("iterations/?precision=amp")["count"] == 0


def test_private_networks_are_not_told_of(run, get, client):
    private = create_architecture(slug="secret-net", source=Architecture.UPLOADED)
    create_iteration_timing(run=run, architecture=private)
    slugs = {one["architecture"] for one in get("iterations/")["results"]}
    assert slugs == {"tinynet"}
    response = client.get("/api/v1/timings/layers/?architecture=secret-net")
    assert response.status_code == 400
    assert "did you mean" not in json.loads(response.content)["detail"]


@pytest.mark.parametrize(
    ("query", "parameter", "sentence"),
    [
        ("machine=aws-g4dn.xlarg", "machine", "Unknown machine 'aws-g4dn.xlarg' (did you mean "),
        ("device=t40", "device", "Unknown device 't40' (did you mean t4?)."),
        ("architecture=tinynets", "architecture", "Unknown architecture 'tinynets' (did you mean "),
        ("machin=t4", "machin", "There is no filter 'machin' (did you mean machine?)."),
        ("%25s=1", "%s", "There is no filter '%s'."),
        ("machine=%25d", "machine", "Unknown machine '%d'."),
        ("batch_size=-1", "batch_size", "Ensure this value is greater than or equal to 0."),
        ("batch_size=9999999999", "batch_size", "Ensure this value is less than or equal to "),
        ("run=none", "run", "Enter a valid UUID."),
        ("precision=fp8", "precision", "Unknown precision 'fp8': it is one of fp32, tf32, amp."),
    ],
)
@pytest.mark.parametrize("kind", ["layers", "iterations"])
def test_a_wrong_filter_is_refused_in_a_sentence(run, client, kind, query, parameter, sentence):
    response = client.get(f"/api/v1/timings/{kind}/?{query}")
    assert (response.status_code, response["Content-Type"]) == (400, "application/problem+json")
    (error,) = json.loads(response.content)["errors"]
    assert error["parameter"] == parameter
    assert error["detail"].startswith(sentence)


@pytest.mark.parametrize("kind", ["layers", "iterations"])
def test_queries_do_not_grow_with_rows(run, client, kind):
    counts = []
    for limit in (1, 1000):
        with CaptureQueriesContext(connection) as queries:
            client.get(f"/api/v1/timings/{kind}/?architecture=tinynet&limit={limit}")
        counts.append(len(queries))
    assert counts == [3, 3]


def test_an_unchanged_list_is_not_sent_again(run, client):
    first = client.get("/api/v1/timings/iterations/")
    again = client.get("/api/v1/timings/iterations/", headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
