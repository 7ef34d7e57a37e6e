"""The catalogue in the admin: pages, append-only history, and imports that store all or nothing."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
import time_machine
from django.contrib.auth.models import Permission, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from benchmarking.models import Architecture, Device, Machine, Price
from benchmarking.tests.factories import (
    create_architecture,
    create_device,
    create_machine,
    create_price,
)

pytestmark = pytest.mark.django_db

HEADER = "machine,kind,region,usd_per_hour,as_of,source\n"
CSV_FORMAT, JSON_FORMAT = "0", "1"


@pytest.fixture
def client(admin_user: User) -> Client:
    client = Client()
    client.force_login(admin_user)
    return client


@pytest.fixture
def machine() -> Machine:
    return create_machine(slug="aws-g4dn.xlarge", device=create_device(slug="t4", name="NVIDIA T4"))


def read(client: Client, path: str) -> str:
    response = client.get(f"/admin/benchmarking/{path}")
    assert response.status_code == 200
    return response.content.decode()


def upload(client: Client, model: str, text: str, format_: str = CSV_FORMAT) -> str:
    file = SimpleUploadedFile("rows.csv", text.encode())
    response = client.post(
        f"/admin/benchmarking/{model}/import/",
        {"import_file": file, "format": format_, "resource": ""},
    )
    assert response.status_code == 200
    return response.content.decode()


def confirm(client: Client, model: str, preview: str) -> str:
    """Press the button of a preview, with its hidden fields."""
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', preview))
    assert "import_file_name" in fields
    response = client.post(f"/admin/benchmarking/{model}/process_import/", fields, follow=True)
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("device/?q=t4", "NVIDIA T4"),
        ("device/?kind__exact=cuda", "NVIDIA T4"),
        ("machine/?q=g4dn", "aws-g4dn.xlarge"),
        ("machine/?provider=aws&availability__exact=current", "aws-g4dn.xlarge"),
        ("price/?q=g4dn", "2018/2019"),
        ("price/?machine__provider=aws&kind__exact=on-demand", "2018/2019"),
        ("architecture/?q=tiny", "tiny18"),
        ("convolutionlayer/?q=8x16x16", "8x16x16-16k3x3s1x1p1x1d1x1g1"),
    ],
)
def test_lists_find_what_is_searched_and_filtered(
    client: Client, machine: Machine, path: str, expected: str
) -> None:
    create_price(machine=machine, as_of="2018/2019")
    create_architecture(slug="tiny18")
    assert expected in read(client, path)


def test_a_search_leaves_out_the_others(client: Client, machine: Machine) -> None:
    create_machine(slug="azure-other", provider="azure")
    page = read(client, "machine/?provider=azure")
    assert "azure-other" in page
    assert "aws-g4dn.xlarge" not in page


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        ("recent", ["aws-recent"]),
        ("old", ["aws-old", "aws-period"]),
        ("undated", ["aws-undated"]),
        ("none", ["aws-none", "aws-spot-only"]),
    ],
)
@time_machine.travel("2026-09-01 12:00Z")
def test_machines_whose_price_wants_looking_up_are_found(
    client: Client, age: str, expected: list[str]
) -> None:
    for slug, days in (
        ("aws-recent", ["2025-01-01", "2026-08-17"]),
        ("aws-old", ["2026-06-01", ""]),
        ("aws-period", ["2025-06/2026"]),
        ("aws-undated", [""]),
    ):
        machine = create_machine(slug=slug)
        for day in days:
            create_price(machine=machine, as_of=day)
    create_machine(slug="aws-none")
    create_price(machine=create_machine(slug="aws-spot-only"), kind="spot", as_of="2026-08-31")
    assert (
        re.findall(r">(aws-[\w-]+)</a></th>", read(client, f"machine/?newest_price={age}"))
    ) == sorted(expected)


def test_the_list_of_machines_shows_the_newest_price_and_its_date(
    client: Client, machine: Machine
) -> None:
    create_price(machine=machine, usd_per_hour="0.9", as_of="2018/2019")
    create_price(machine=machine, usd_per_hour="0.526", as_of="2026-07-28")
    text = read(client, "machine/")
    assert '<td class="field-newest_price">0.526</td>' in text
    assert '<td class="field-newest_date">2026-07-28</td>' in text


@time_machine.travel("2026-09-01 12:00Z")
def test_a_new_price_is_of_today_unless_told_otherwise(client: Client) -> None:
    assert 'name="as_of" value="2026-09-01"' in read(client, "price/add/")


def test_a_long_source_leaves_room_for_the_other_columns(client: Client, machine: Machine) -> None:
    price = create_price(machine=machine, usd_per_hour="0.526", source="list " * 40)
    text = read(client, "price/")
    assert '<td class="field-usd">0.526</td>' in text
    assert price.source not in text
    assert price.source.strip() in read(client, f"price/{price.pk}/change/")


def test_a_machine_shows_its_price_history_and_takes_a_new_price(
    client: Client, machine: Machine
) -> None:
    create_price(machine=machine, usd_per_hour="0.9", as_of="2018/2019", source="old table")
    page = read(client, f"machine/{machine.pk}/change/")
    assert "2018/2019" in page
    assert "old table" in page
    assert not re.search(r'name="prices-0-usd_per_hour"', page)


def test_a_price_is_added_on_the_page_of_its_machine(client: Client, machine: Machine) -> None:
    old = create_price(machine=machine, usd_per_hour="0.9", as_of="2018/2019")
    form = {
        name: getattr(machine, name)
        for name in ("slug", "provider", "instance_type", "region", "availability")
    }
    form |= {"device": machine.device.pk, "device_count": 1, "vcpus": 4, "memory_gib": 16}
    form |= {"prices-TOTAL_FORMS": 2, "prices-INITIAL_FORMS": 1, "prices-0-id": old.pk}
    form |= {
        f"prices-1-{name}": value
        for name, value in {
            "machine": machine.pk,
            "kind": "on-demand",
            "region": "us-east-1",
            "usd_per_hour": "0.526",
            "as_of": "2026-07-28",
            "source": "a table",
        }.items()
    }
    form["prices-0-usd_per_hour"] = "0.1"
    response = client.post(f"/admin/benchmarking/machine/{machine.pk}/change/", form)
    assert response.status_code == 302
    assert list(machine.prices.order_by("as_of").values_list("usd_per_hour", "as_of")) == [
        (Decimal("0.9"), "2018/2019"),
        (Decimal("0.526"), "2026-07-28"),
    ]


def test_a_machine_with_a_price_history_cannot_be_deleted(client: Client, machine: Machine) -> None:
    create_price(machine=machine)
    response = client.post(f"/admin/benchmarking/machine/{machine.pk}/delete/", {"post": "yes"})
    assert response.status_code == 403
    assert Machine.objects.count() == 1


def test_a_price_can_be_added_and_not_changed_or_deleted(client: Client, machine: Machine) -> None:
    row = {
        "machine": machine.pk,
        "kind": "on-demand",
        "region": "us-east-1",
        "usd_per_hour": "0.526",
        "as_of": "2026-07-28",
        "source": "a table",
    }
    client.post("/admin/benchmarking/price/add/", row)
    price = Price.objects.get()
    assert (price.usd_per_hour, price.as_of) == (Decimal("0.526"), "2026-07-28")
    change = client.post(f"/admin/benchmarking/price/{price.pk}/change/", row | {"usd_per_hour": 1})
    delete = client.post(f"/admin/benchmarking/price/{price.pk}/delete/", {"post": "yes"})
    assert (change.status_code, delete.status_code) == (403, 403)
    assert Price.objects.get().usd_per_hour == Decimal("0.526")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"usd_per_hour": "0"}, "must be greater than 0"),
        ({"usd_per_hour": "-2"}, "must be greater than 0"),
        ({"as_of": ""}, "This field is required."),
        ({"as_of": "soon"}, "is no date: write 2026-08-17"),
        ({"as_of": "2999-01-01"}, "2999-01-01 is in the future"),
        ({"source": ""}, "This field is required."),
    ],
)
def test_a_wrong_price_is_refused_with_what_is_allowed(
    client: Client, machine: Machine, changes: dict[str, str], message: str
) -> None:
    row = {
        "machine": machine.pk,
        "kind": "on-demand",
        "region": "us-east-1",
        "usd_per_hour": "0.526",
        "as_of": "2026-07-28",
        "source": "a table",
    }
    page = client.post("/admin/benchmarking/price/add/", row | changes).content.decode()
    assert message in page
    assert Price.objects.count() == 0


def test_an_unknown_date_is_said_so_and_stored_empty(client: Client, machine: Machine) -> None:
    client.post(
        "/admin/benchmarking/price/add/",
        {
            "machine": machine.pk,
            "kind": "on-demand",
            "region": "us-east-1",
            "usd_per_hour": "0.526",
            "as_of": "unknown",
            "source": "a table, undated",
        },
    )
    assert Price.objects.get().as_of == ""
    assert "undated" in read(client, "price/")


def test_an_import_shows_its_difference_before_it_stores(client: Client, machine: Machine) -> None:
    create_price(machine=machine, usd_per_hour="0.9", as_of="2018/2019", source="old table")
    text = (
        HEADER
        + "aws-g4dn.xlarge,on-demand,us-east-1,0.9,2018/2019,old table\n"
        + "aws-g4dn.xlarge,on-demand,us-east-1,0.526,2026-07-28,new table\n"
        + "aws-g4dn.xlarge,spot,us-east-1,0.2,unknown,hearsay\n"
    )
    preview = upload(client, "price", text)
    assert Price.objects.count() == 1
    assert re.findall(r'<tr class="(new|skip|update)">', preview) == ["skip", "new", "new"]
    assert "new table" in preview
    page = confirm(client, "price", preview)
    assert "2 new, 0 updated, 0 deleted and 1 skipped" in page
    stored = Price.objects.order_by("id").values_list("kind", "usd_per_hour", "as_of", "source")
    assert list(stored) == [
        ("on-demand", Decimal("0.9"), "2018/2019", "old table"),
        ("on-demand", Decimal("0.526"), "2026-07-28", "new table"),
        ("spot", Decimal("0.2"), "", "hearsay"),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "aws-g4dn.xlarge,on-demand,us-east-1,0,2026-07-28,t",
            "Row 2: usd_per_hour: '0' must be a number greater than 0",
        ),
        (
            "aws-g4dn.xlarge,on-demand,us-east-1,-1,2026-07-28,t",
            "Row 2: usd_per_hour: '-1' must be a number greater than 0",
        ),
        (
            "aws-g4dn.xlarge,on-demand,us-east-1,cheap,2026-07-28,t",
            "Row 2: usd_per_hour: 'cheap' must be a number greater than 0",
        ),
        ("aws-g4dn.xlarge,on-demand,us-east-1,0.5,,t", "is empty. A date such as 2026-08-17"),
        ("aws-g4dn.xlarge,on-demand,us-east-1,0.5,28.7.2026,t", "is no date: write 2026-08-17"),
        ("aws-g4dn.xlarge,on-demand,us-east-1,0.5,2026-07-28,", "is empty"),
        ("aws-g4dn.xlarge,reserved,us-east-1,0.5,2026-07-28,t", "must be one of on-demand, spot"),
        ("aws-g4dn.xlage,on-demand,us-east-1,0.5,2026-07-28,t", "did you mean aws-g4dn.xlarge?"),
        (
            "aws-g4dn.xlarge,on-demand,us-east-1,0.8,2018/2019,old table",
            "this quotation is stored with 0.9 USD/h. Prices are history",
        ),
    ],
)
def test_one_wrong_row_stores_nothing_of_a_file(
    client: Client, machine: Machine, row: str, message: str
) -> None:
    create_price(machine=machine, usd_per_hour="0.9", as_of="2018/2019", source="old table")
    good = "aws-g4dn.xlarge,on-demand,us-east-1,0.526,2026-07-28,new table\n"
    page = upload(client, "price", f"{HEADER}{good}{row}\n")
    assert message in page.replace("&#x27;", "'")
    assert "Nothing was stored" in page
    assert 'name="confirm"' not in page
    assert "Traceback" not in page
    assert Price.objects.count() == 1


@pytest.mark.parametrize(
    ("text", "format_", "message"),
    [
        ("machine,price\naws-g4dn.xlarge,0.5\n", CSV_FORMAT, "the file lacks the columns kind"),
        (HEADER + "aws-g4dn.xlarge,on-demand\n", CSV_FORMAT, "is empty"),
        (HEADER + "1,2,3,4,5,6,7\n", CSV_FORMAT, "cannot be read in this format"),
        ("{", JSON_FORMAT, "cannot be read in this format"),
        ("3", JSON_FORMAT, "cannot be read in this format"),
        ("", CSV_FORMAT, "The submitted file is empty."),
        (HEADER.replace("source", "source,colour") + "a,b,c,d,e,f,g\n", CSV_FORMAT, "colour"),
    ],
)
def test_a_malformed_file_is_explained(
    client: Client, machine: Machine, text: str, format_: str, message: str
) -> None:
    page = upload(client, "price", text, format_)
    assert message in page
    assert "Traceback" not in page
    assert 'name="confirm"' not in page
    assert Price.objects.count() == 0


def test_data_that_changed_since_the_preview_stores_nothing(
    client: Client, machine: Machine
) -> None:
    row = "aws-g4dn.xlarge,on-demand,us-east-1,0.526,2026-07-28,new table\n"
    other = "aws-g4dn.xlarge,spot,us-east-1,0.2,2026-07-28,new table\n"
    preview = upload(client, "price", HEADER + other + row)
    create_price(machine=machine, usd_per_hour="0.6", as_of="2026-07-28", source="new table")
    page = confirm(client, "price", preview)
    assert "Nothing was stored: the data here changed since the preview." in page
    assert list(Price.objects.values_list("usd_per_hour", flat=True)) == [Decimal("0.6")]


def test_an_export_of_prices_can_be_imported_again(client: Client, machine: Machine) -> None:
    create_price(machine=machine, usd_per_hour="0.9", as_of="", source="undated table")
    response = client.post(
        "/admin/benchmarking/price/export/", {"format": CSV_FORMAT, "resource": ""}
    )
    text = response.content.decode()
    assert "aws-g4dn.xlarge" in text
    assert ",unknown,undated table," in text
    preview = upload(client, "price", text)
    assert re.findall(r'<tr class="(new|skip|update)">', preview) == ["skip"]


def test_an_import_of_machines_changes_only_the_columns_it_has(
    client: Client, machine: Machine
) -> None:
    Machine.objects.update(vcpus=4, memory_gib=16, note="kept")
    preview = upload(client, "machine", "slug,vcpus,availability\naws-g4dn.xlarge,8,retired\n")
    assert re.findall(r'<tr class="(new|skip|update)">', preview) == ["update"]
    confirm(client, "machine", preview)
    changed = Machine.objects.get()
    assert (changed.vcpus, changed.availability, changed.memory_gib, changed.note) == (
        8,
        "retired",
        16,
        "kept",
    )


def test_an_import_of_machines_names_an_unknown_device(client: Client, machine: Machine) -> None:
    text = "slug,provider,instance_type,device\naws-new,aws,new,t44\n"
    page = upload(client, "machine", text).replace("&#x27;", "'")
    assert "'t44' is not in the catalogue (did you mean t4?)" in page
    assert Machine.objects.count() == 1


def test_a_new_machine_needs_what_every_machine_has(client: Client, machine: Machine) -> None:
    page = upload(client, "machine", "slug,provider,instance_type\naws-new,aws,new\n")
    assert "This field cannot be null." in page
    preview = upload(client, "machine", "slug,provider,instance_type,device\naws-new,aws,new,t4\n")
    confirm(client, "machine", preview)
    created = Machine.objects.get(slug="aws-new")
    assert (created.device.slug, created.device_count, created.availability) == (
        "t4",
        1,
        "current",
    )


def test_an_import_of_devices_adds_and_checks_them(client: Client, machine: Machine) -> None:
    header = "slug,name,kind,fp32_tflops,tf32_tflops,compute_capability\n"
    page = upload(client, "device", header + "gtx,GTX,cuda,8.8,8.8,6.1\n")
    assert "needs compute capability 8.0 (Ampere) or later" in page
    preview = upload(client, "device", header + "gtx,GTX,cuda,8.8,,6.1\n")
    confirm(client, "device", preview)
    device = Device.objects.get(slug="gtx")
    assert (device.name, device.fp32_tflops, device.tf32_tflops) == ("GTX", 8.8, None)


def test_those_who_may_only_look_cannot_import(machine: Machine) -> None:
    user = User.objects.create_user("reader", is_staff=True)
    user.user_permissions.add(*Permission.objects.filter(codename__startswith="view_"))
    client = Client()
    client.force_login(user)
    assert client.get("/admin/benchmarking/price/").status_code == 200
    assert client.get("/admin/benchmarking/price/import/").status_code == 403
    assert client.get("/admin/benchmarking/price/export/").status_code == 200


def test_an_architecture_shows_its_layers_and_cannot_be_edited(client: Client) -> None:
    architecture = create_architecture(slug="tiny18")
    page = read(client, f"architecture/{architecture.pk}/change/")
    assert "8x16x16-16k3x3s1x1p1x1d1x1g1" in page
    assert "optimizer: _foreach_add_ x 1" in page
    post = client.post(f"/admin/benchmarking/architecture/{architecture.pk}/change/", {"slug": "x"})
    assert post.status_code == 403
    assert client.get("/admin/benchmarking/architecture/add/").status_code == 403
    assert Architecture.objects.get().slug == "tiny18"
