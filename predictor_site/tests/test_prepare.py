"""What script/setup refuses after it has loaded the shipped data."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from benchmarking.models import Machine
from benchmarking.tests import factories
from predictor_site.prepare import check_automatic_machines

pytestmark = pytest.mark.django_db


def test_unknown_automatic_machines_are_refused_and_retired_ones_are_not(
    settings: Settings,
) -> None:
    factories.create_machine(slug="aws-p4d.24xlarge")
    factories.create_machine(slug="aws-p2.xlarge", availability=Machine.Availability.RETIRED)
    settings.AUTOMATIC_BENCHMARK_MACHINES = ["aws-p2.xlarge", "aws-p4d.24xlage"]

    with pytest.raises(ImproperlyConfigured) as refused:
        check_automatic_machines()
    assert str(refused.value) == (
        "AUTOMATIC_BENCHMARK_MACHINES must be machines of the catalogue such as aws-g4dn.xlarge; "
        "'aws-p4d.24xlage' is none (did you mean aws-p4d.24xlarge?)"
    )

    settings.AUTOMATIC_BENCHMARK_MACHINES = ["aws-p2.xlarge", "aws-p4d.24xlarge"]
    check_automatic_machines()
