"""Loading a catalogue: once, again, after changes of the files and changes here."""

from __future__ import annotations

from decimal import Decimal
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from benchmarking.catalogue.errors import CatalogueError
from benchmarking.catalogue.loading import load_catalogue
from benchmarking.models import Device, Machine, Price
from benchmarking.tests.catalogue.conftest import (
    DEVICE,
    MACHINE,
    PRICE,
    WriteCatalogue,
)

pytestmark = pytest.mark.django_db


def rows_in_database() -> list[object]:
    return [list(model.objects.order_by("pk").values()) for model in (Device, Machine, Price)]


def test_rows_have_the_values_of_the_files(write_catalogue: WriteCatalogue) -> None:
    report = load_catalogue(write_catalogue())
    assert report.created == {"devices": 2, "machines": 1, "prices": 1}
    machine = Machine.objects.get()
    assert (machine.slug, machine.vcpus, machine.memory_gib, machine.availability) == (
        "aws-g4dn.xlarge",
        4,
        16,
        "current",
    )
    assert (machine.device.slug, machine.device.usable_memory_mib) == ("t4", 15102.0)
    assert machine.device.sources["fp32_tflops"] == "data sheet"
    price = machine.prices.get()
    assert (price.usd_per_hour, price.as_of, price.source, price.currency, price.notional) == (
        Decimal("0.526"),
        "2026-07-28",
        "price list",
        "USD",
        False,
    )


def test_a_second_run_changes_nothing(write_catalogue: WriteCatalogue) -> None:
    folder = write_catalogue()
    load_catalogue(folder)
    before = rows_in_database()
    report = load_catalogue(folder)
    assert not report.changed
    assert report.unchanged == {"devices": 2, "machines": 1, "prices": 1}
    assert rows_in_database() == before


def test_the_command_says_that_nothing_changed(write_catalogue: WriteCatalogue) -> None:
    folder = write_catalogue()
    first, second = StringIO(), StringIO()
    call_command("load_catalogue", directory=folder, stdout=first)
    call_command("load_catalogue", directory=folder, stdout=second)
    assert first.getvalue().splitlines() == [
        "devices: 2 created, 0 updated, 0 unchanged",
        "machines: 1 created, 0 updated, 0 unchanged",
        "prices: 1 created, 0 updated, 0 unchanged",
    ]
    assert second.getvalue() == "Nothing to change: 2 devices, 1 machines, 1 prices are loaded.\n"


def test_a_changed_file_changes_the_row_and_keeps_its_id(write_catalogue: WriteCatalogue) -> None:
    load_catalogue(write_catalogue())
    before = Machine.objects.get()
    report = load_catalogue(
        write_catalogue(
            devices=[DEVICE | {"clock_mhz": 1600.0}],
            machines=[MACHINE | {"availability": "retired", "note": "Gone."}],
        )
    )
    after = Machine.objects.get()
    assert after.pk == before.pk
    assert (after.availability, after.note) == ("retired", "Gone.")
    assert after.device.clock_mhz == 1600.0
    assert report.updated == {"devices": 1, "machines": 1, "prices": 0}
    assert report.kept == []


def test_what_was_changed_here_stays_and_is_reported_again_and_again(
    write_catalogue: WriteCatalogue,
) -> None:
    load_catalogue(write_catalogue())
    Machine.objects.update(availability="retired", vcpus=8)
    changed = write_catalogue(machines=[MACHINE | {"vcpus": 6, "memory_gib": 17}])
    for number in range(2):
        report = load_catalogue(changed)
        assert report.kept == [
            "aws-g4dn.xlarge: vcpus stays 8, the catalogue says 6",
            "aws-g4dn.xlarge: availability stays 'retired', the catalogue says 'current'",
        ]
        assert report.changed == (number == 0)
    machine = Machine.objects.get()
    assert (machine.vcpus, machine.availability, machine.memory_gib) == (8, "retired", 17)


def test_overwrite_takes_the_catalogues_values(write_catalogue: WriteCatalogue) -> None:
    folder = write_catalogue()
    load_catalogue(folder)
    Machine.objects.update(vcpus=8)
    out = StringIO()
    call_command("load_catalogue", directory=folder, overwrite=True, stdout=out)
    assert Machine.objects.get().vcpus == 4
    assert "machines: 0 created, 1 updated, 0 unchanged" in out.getvalue()


def test_what_the_catalogue_leaves_open_is_filled_in_here_without_a_word(
    write_catalogue: WriteCatalogue,
) -> None:
    folder = write_catalogue()
    load_catalogue(folder)
    Device.objects.filter(slug="local-cpu").update(usable_memory_mib=24105.0, reported_name="Xeon")
    report = load_catalogue(folder)
    assert report.kept == []
    assert not report.changed
    device = Device.objects.get(slug="local-cpu")
    assert (device.usable_memory_mib, device.reported_name) == (24105.0, "Xeon")


def test_a_row_that_was_made_here_keeps_its_values(write_catalogue: WriteCatalogue) -> None:
    Device.objects.create(slug="t4", name="My T4", kind="cuda", fp32_tflops=8.0)
    report = load_catalogue(write_catalogue())
    device = Device.objects.get(slug="t4")
    assert (device.name, device.fp32_tflops, device.bandwidth_gb_s) == ("My T4", 8.0, 320.0)
    assert report.kept == [
        "t4: name stays 'My T4', the catalogue says 'NVIDIA T4'",
        "t4: fp32_tflops stays 8.0, the catalogue says 8.1",
    ]


def test_a_new_quotation_is_added_beside_the_old_one(write_catalogue: WriteCatalogue) -> None:
    load_catalogue(write_catalogue())
    newer = PRICE | {"usd_per_hour": "0.5", "as_of": "2026-11-01"}
    report = load_catalogue(write_catalogue(prices=[PRICE, newer]))
    assert report.created["prices"] == 1
    assert list(Price.objects.order_by("as_of").values_list("as_of", "usd_per_hour")) == [
        ("2026-07-28", Decimal("0.526")),
        ("2026-11-01", Decimal("0.5")),
    ]


def test_a_quotation_is_never_rewritten(write_catalogue: WriteCatalogue) -> None:
    load_catalogue(write_catalogue())
    before = rows_in_database()
    with pytest.raises(CatalogueError, match="prices are history"):
        load_catalogue(
            write_catalogue(
                machines=[MACHINE | {"vcpus": 5}], prices=[PRICE | {"usd_per_hour": "0.6"}]
            )
        )
    assert rows_in_database() == before


def test_rows_that_left_the_files_stay(write_catalogue: WriteCatalogue) -> None:
    load_catalogue(write_catalogue())
    load_catalogue(write_catalogue(machines=[], prices=[]))
    assert Machine.objects.get().slug == "aws-g4dn.xlarge"
    assert Price.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"devices": {}}, "devices.json: must hold a list of objects"),
        ({"devices": [3]}, "devices.json row 1: must be an object"),
        ({"devices": [{"slug": "t4"}]}, r"devices.json row 1 \(t4\): lacks name, kind"),
        ({"devices": [DEVICE, DEVICE]}, r"devices.json row 2 \(t4\): the slug appears twice"),
        ({"devices": [DEVICE | {"tflops": 8}]}, "does not know tflops; allowed: architecture"),
        ({"devices": [DEVICE | {"fp32_tflops": -1}]}, "fp32_tflops: must be greater than 0"),
        ({"devices": [DEVICE | {"fp32_tflops": "many"}]}, "fp32_tflops: .*must be a float"),
        ({"devices": [DEVICE | {"kind": "tpu"}]}, "kind: Value 'tpu' is not a valid choice"),
        (
            {"devices": [DEVICE | {"usable_memory_mib": 17000}]},
            "usable_memory_mib: is larger than the nominal memory",
        ),
        (
            {"devices": [DEVICE | {"tf32_tflops": 65}]},
            r"tf32_tflops: needs compute capability 8.0 \(Ampere\) or later",
        ),
        ({"machines": [MACHINE | {"device": "t40"}]}, r"device 't40' .* \(did you mean t4\?\)"),
        ({"machines": [MACHINE | {"device_count": 0}]}, "device_count: must be greater than 0"),
        ({"machines": [MACHINE | {"availability": "gone"}]}, "availability: Value 'gone'"),
        ({"prices": [PRICE | {"usd_per_hour": 0}]}, "usd_per_hour: .*greater than"),
        ({"prices": [PRICE | {"usd_per_hour": "-0.5"}]}, "usd_per_hour: .*greater than"),
        ({"prices": [PRICE | {"usd_per_hour": "cheap"}]}, "usd_per_hour must be a number"),
        ({"prices": [PRICE | {"as_of": "last year"}]}, "'last year' is no date: write 2026-08-17"),
        ({"prices": [PRICE | {"as_of": "2026-13"}]}, "'2026-13' is no date"),
        ({"prices": [PRICE | {"as_of": "2019/2018"}]}, "'2019/2018' is no date"),
        ({"prices": [PRICE | {"as_of": "2999-01-01"}]}, "as_of: 2999-01-01 is in the future"),
        ({"prices": [PRICE | {"source": ""}]}, "source: This field cannot be blank"),
        ({"prices": [PRICE | {"currency": "EUR"}]}, "currency must be USD"),
        ({"prices": [PRICE | {"kind": "reserved"}]}, "kind: Value 'reserved'"),
        ({"prices": [PRICE | {"machine": "aws-g4dn.large"}]}, "did you mean aws-g4dn.xlarge?"),
        ({"prices": [PRICE, PRICE | {"usd_per_hour": 1}]}, "appears twice with the same source"),
        ({"prices": [{k: v for k, v in PRICE.items() if k != "as_of"}]}, "lacks as_of"),
    ],
)
def test_a_wrong_row_is_named_and_nothing_is_stored(
    write_catalogue: WriteCatalogue, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(CatalogueError, match=message) as caught:
        load_catalogue(write_catalogue(**changes))
    assert "\n" not in str(caught.value)
    assert rows_in_database() == [[], [], []]


@pytest.mark.parametrize(
    ("text", "message"),
    [("[{", "machines.json: is not JSON"), ('[{"slug": NaN}]', "NaN is no finite number")],
)
def test_a_file_that_is_no_json_is_named(
    write_catalogue: WriteCatalogue, text: str, message: str
) -> None:
    folder = write_catalogue()
    (folder / "machines.json").write_text(text)
    with pytest.raises(CatalogueError, match=message):
        load_catalogue(folder)
    assert Device.objects.count() == 0


def test_the_command_exits_with_2_and_one_line(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        call_command("load_catalogue", directory=tmp_path)
    assert caught.value.returncode == 2
    assert (
        str(caught.value)
        == f"{tmp_path / 'devices.json'}: cannot be read: No such file or directory"
    )
