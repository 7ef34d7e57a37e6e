"""The largest page that is promised to be quick: 4 CNNs x 12 machines x 64 batch sizes."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarking.models import Device
from benchmarking.tests.factories import create_architecture, create_machine, create_price

CNNS = ("resnet50", "mobilenet_v2", "densenet121", "vgg16")
MACHINES = 12
LARGEST_BYTES = 250_000


@pytest.fixture
def large_query(catalogue) -> str:
    """A query string over four CNNs and twelve machines, whose curves are stored already."""
    for slug in CNNS[2:]:
        create_architecture(slug=slug, parameters=7_978_856, multiply_adds=2_834_161_664)
    device = Device.objects.get(slug="t4")
    machines = [f"aws-test.{number}xlarge" for number in range(MACHINES)]
    for number, slug in enumerate(machines, start=1):
        create_price(machine=create_machine(slug=slug, device=device), usd_per_hour=f"{number}.526")
    pairs = [("architecture", slug) for slug in CNNS] + [("machine", slug) for slug in machines]
    return urlencode([*pairs, ("batch_sizes", "1-64")])


@pytest.mark.parametrize("path", ["/", "/forecast.csv", "/forecast.json"])
def test_u11_queries_do_not_grow_with_what_is_compared(client, large_query, path):
    counts = []
    for query in ("architecture=resnet50&machine=aws-test.0xlarge&batch_sizes=1-64", large_query):
        # The first time computes the curves and stores them.
        assert client.get(f"{path}?{query}").status_code == 200
        with CaptureQueriesContext(connection) as queries:
            client.get(f"{path}?{query}")
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert counts[0] <= 15


def test_u11_the_large_page_weighs_at_most_250_kb(client, large_query):
    response = client.get(f"/?{large_query}", headers={"Accept-Encoding": "gzip"})
    assert (response.status_code, response["Content-Encoding"]) == (200, "gzip")
    assert 20_000 < len(response.content) <= LARGEST_BYTES
    rows = client.get(f"/forecast.json?{large_query}").json()["rows"]
    assert len(rows) == len(CNNS) * MACHINES * 64
