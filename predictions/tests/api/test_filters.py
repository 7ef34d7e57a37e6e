"""Values that no row has: refused by every filter of every list, with what may have been meant."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import User
from rest_framework.authtoken.models import Token

from benchmarking.tests.factories import create_job
from predictions.api.filters import (
    ArchitectureFilters,
    DeviceFilters,
    EvaluationFilters,
    IterationTimingFilters,
    LayerTimingFilters,
    MachineFilters,
    PriceFilters,
)
from predictions.api.jobs import JobFilters

LISTS = {
    "architectures": ArchitectureFilters,
    "devices": DeviceFilters,
    "machines": MachineFilters,
    "prices": PriceFilters,
    "evaluations": EvaluationFilters,
    "timings/layers": LayerTimingFilters,
    "timings/iterations": IterationTimingFilters,
    "jobs": JobFilters,
}
ENDPOINTS = [*LISTS, "predictions", "advice"]
FILTERS = [(name, one) for name, filters in LISTS.items() for one in filters.base_filters]


@pytest.fixture
def refused(run, client):
    """Fetch what is refused, as an operator; gives the errors by parameter."""
    create_job()
    user = User.objects.create_user("operator", is_staff=True)
    headers = {"Authorization": f"Token {Token.objects.create(user=user).key}"}

    def fetch(path: str) -> dict[str, str]:
        response = client.get(f"/api/v1/{path}", headers=headers)
        assert response.status_code == 400, response.content[:300]
        assert response["Content-Type"] == "application/problem+json"
        problem = json.loads(response.content)
        assert (problem["status"], problem["type"]) == (400, "about:blank")
        return {error["parameter"]: error["detail"] for error in problem["errors"]}

    return fetch


@pytest.mark.parametrize(("name", "parameter"), FILTERS)
def test_no_filter_takes_a_value_that_nothing_has(refused, name, parameter):
    (refusal,) = refused(f"{name}/?{parameter}=qqqqqq").items()
    assert refusal[0] == parameter
    assert refusal[1].endswith(".")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("prices/?machine=aws-g4dn.xlarg", "Unknown machine 'aws-g4dn.xlarg' (did you mean aws-"),
        (
            "prices/?kind=spto",
            "Unknown kind 'spto' (did you mean spot?): it is one of on-demand, spot.",
        ),
        ("prices/?region=us-east1", "Unknown region 'us-east1' (did you mean us-east-1?)."),
        ("evaluations/?machine=reference", "Unknown machine 'reference' (did you mean reference-"),
        ("machines/?provider=asw", "Unknown provider 'asw' (did you mean aws?)."),
        ("machines/?slug=gcp-unprized", "Unknown machine 'gcp-unprized' (did you mean gcp-unpric"),
        (
            "machines/?availability=old",
            "Unknown availability 'old': it is one of current, retired.",
        ),
        ("devices/?slug=t40", "Unknown device 't40' (did you mean t4?)."),
        ("devices/?kind=gpu", "Unknown kind 'gpu' (did you mean cpu?): it is one of cpu, cuda."),
        ("architectures/?family=resnets", "Unknown family 'resnets' (did you mean resnet50?)."),
        ("architectures/?slug=resnet5", "Unknown architecture 'resnet5' (did you mean resnet50"),
        ("timings/layers/?layer=3x3", "Unknown layer '3x3'."),
        ("jobs/?state=runing", "Unknown state 'runing' (did you mean running or "),
        ("machines/?limit=ten", "limit must be a whole number from 1 on (got 'ten')."),
        ("machines/?limit=0", "limit must be a whole number from 1 on (got '0')."),
        ("machines/?offset=-1", "offset must be a whole number from 0 on (got '-1')."),
    ],
)
def test_the_sentence_says_what_may_have_been_meant(refused, path, sentence):
    (detail,) = refused(path).values()
    assert detail.startswith(sentence)


def test_percent_signs_and_null_bytes_stay_what_they_are(refused):
    assert refused("prices/?kind=%25s")["kind"].startswith("Unknown kind '%s'")
    assert refused("prices/?region=%25(sentence)s")["region"] == "Unknown region '%(sentence)s'."
    assert refused("machines/?provider=a%00b")["provider"] == "Null characters are not allowed."


def test_several_values_where_one_counts(refused, client):
    assert refused("prices/?machine=aws-g4dn.xlarge&machine=aws-old.xlarge") == {
        "machine": "Give machine once (got 2 different values)."
    }
    assert refused("machines/?limit=1&limit=2") == {
        "limit": "Give limit once (got 2 different values)."
    }
    same = client.get("/api/v1/machines/?provider=aws&provider=aws")
    assert same.json()["count"] == 3


@pytest.mark.parametrize("name", ENDPOINTS)
def test_ten_thousand_repeats_are_refused_in_a_sentence(catalogue, client, name):
    response = client.get(f"/api/v1/{name}/?" + "&".join(["machine=aws-g4dn.xlarge"] * 10_000))
    assert (response.status_code, response["Content-Type"]) == (400, "application/problem+json")
    assert json.loads(response.content) == {
        "type": "about:blank",
        "title": "Bad Request",
        "status": 400,
        "detail": "The request cannot be read. It holds too many values, or characters that no "
        "address may hold.",
        "errors": [],
    }
