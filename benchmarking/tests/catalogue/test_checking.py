"""check_catalogue: what it counts, and each thing that it finds."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from benchmarking.catalogue.checking import check_catalogue
from benchmarking.catalogue.loading import load_catalogue
from benchmarking.models import Device, Machine, Price
from benchmarking.tests.catalogue.conftest import (
    DEVICE,
    MACHINE,
    PRICE,
    WriteCatalogue,
)

pytestmark = pytest.mark.django_db

LOCAL = {
    "slug": "local",
    "provider": "local",
    "instance_type": "local",
    "device": "local-cpu",
    "source": "this computer",
    "no_price_reason": "Nobody bills it.",
}


def test_a_complete_catalogue_is_counted(write_catalogue: WriteCatalogue) -> None:
    undated = PRICE | {"as_of": "", "source": "some table, undated"}
    load_catalogue(
        write_catalogue(
            machines=[MACHINE, LOCAL, MACHINE | {"slug": "aws-old", "availability": "retired"}],
            prices=[PRICE, PRICE | {"machine": "aws-old"}, undated],
        )
    )
    out = StringIO()
    call_command("check_catalogue", stdout=out)
    assert [line.strip() for line in out.getvalue().splitlines()] == [
        "2 devices",
        "1 GPUs",
        "3 machines",
        "2 current",
        "1 retired",
        "3 prices",
        "1 undated prices",
        "2 machines with a dated price",
        "1 machines with no price known",
        "0 architectures",
        "The catalogue is complete.",
    ]


def test_an_empty_database_is_a_problem() -> None:
    assert check_catalogue().problems == ("there are no machines: run load_catalogue",)


def test_every_problem_is_listed_and_the_exit_code_is_1(write_catalogue: WriteCatalogue) -> None:
    load_catalogue(write_catalogue())
    Price.objects.all().delete()
    Device.objects.filter(slug="t4").update(
        usable_memory_mib=None,
        fp32_tflops=8.2,
        clock_mhz=None,
        sources=DEVICE["sources"] | {"fp32_tflops": ""},
    )
    Machine.objects.update(source="")
    out, err = StringIO(), StringIO()
    with pytest.raises(CommandError, match="6 problems in the catalogue") as caught:
        call_command("check_catalogue", stdout=out, stderr=err)
    assert caught.value.returncode == 1
    assert err.getvalue().splitlines() == [
        "device t4: usable_memory_mib is unknown",
        "device t4: fp32_tflops has no source",
        "device t4: clock_mhz is unknown",
        "machine aws-g4dn.xlarge: nobody knows the usable memory of its device t4",
        "machine aws-g4dn.xlarge: its specification has no source",
        "machine aws-g4dn.xlarge: no dated price, and no reason why none is known",
    ]


def test_an_undated_price_alone_needs_a_reason(write_catalogue: WriteCatalogue) -> None:
    folder = write_catalogue(prices=[PRICE | {"as_of": "", "source": "a table"}])
    load_catalogue(folder)
    assert check_catalogue().problems == (
        "machine aws-g4dn.xlarge: no dated price, and no reason why none is known",
        "price aws-g4dn.xlarge on-demand 0.526000 USD/h (undated): "
        "it is undated, and its source does not say so",
    )


def test_values_that_a_bulk_change_let_through_are_found(write_catalogue: WriteCatalogue) -> None:
    load_catalogue(write_catalogue())
    Price.objects.update(as_of="yesterday", currency="EUR")
    Machine.objects.update(availability="sold out")
    problems = check_catalogue().problems
    assert len(problems) == 2
    assert "availability: Value 'sold out' is not a valid choice." in problems[0]
    assert "'yesterday' is no date" in problems[1]
