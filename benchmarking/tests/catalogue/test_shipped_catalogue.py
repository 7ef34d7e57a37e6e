"""The catalogue that is shipped: complete, consistent, and free of known errors.

Tables of GPUs and prices on the web contain the errors that these tests name; a slip in editing
the files would bring one back.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings

from benchmarking.catalogue.checking import check_catalogue
from benchmarking.catalogue.fixture import Catalogue, PriceRow, read_catalogue
from benchmarking.catalogue.loading import load_catalogue
from benchmarking.catalogue.selectors import newest_prices
from benchmarking.models import Device, Machine

FOLDER = Path(settings.BASE_DIR) / "fixtures" / "catalogue"
REGION = "us-east-1"


@cache
def shipped() -> Catalogue:
    return read_catalogue(FOLDER)


def device(slug: str) -> Device:
    return Device(**shipped().devices[slug])


def machine(slug: str) -> Machine:
    values = dict(shipped().machines[slug])
    return Machine(**values | {"device": device(values["device"])})


def prices(slug: str, region: str = REGION) -> list[PriceRow]:
    return [row for row in shipped().prices if (row.machine, row.region) == (slug, region)]


def newest_price(slug: str) -> Decimal:
    return max(prices(slug), key=lambda row: row.as_of).usd_per_hour


def test_there_are_enough_devices_and_machines() -> None:
    gpus = [slug for slug, values in shipped().devices.items() if values["kind"] == "cuda"]
    assert len(gpus) >= 22
    assert len(shipped().machines) >= 60
    providers = Counter(values["provider"] for values in shipped().machines.values())
    assert providers["aws"] == 50
    assert {"gcp", "azure", "lambda", "paperspace"} <= providers.keys()


@pytest.mark.parametrize(
    "family",
    [
        *("p2", "p3", "p3dn", "p4d", "p4de", "p5", "p5e", "p5en"),
        *("g3", "g3s", "g4dn", "g5", "g6", "gr6", "g6e"),
    ],
)
def test_every_family_of_aws_gpu_instances_is_there(family: str) -> None:
    assert any(slug.startswith(f"aws-{family}.") for slug in shipped().machines)


def test_the_names_of_machines_follow_the_rule() -> None:
    for slug, values in shipped().machines.items():
        if values["provider"] not in ("reference", "local"):
            assert slug == f"{values['provider']}-{values['instance_type']}".lower()


@pytest.mark.django_db
def test_the_catalogue_is_complete() -> None:
    load_catalogue(FOLDER)
    check = check_catalogue()
    assert check.problems == ()
    assert check.counts["machines"] == len(shipped().machines)
    assert check.counts["prices"] == len(shipped().prices)


@pytest.mark.django_db
def test_a_comparison_finds_at_least_eight_current_gpu_machines_with_a_dated_price() -> None:
    load_catalogue(FOLDER)
    current = Machine.objects.filter(availability="current", device__kind="cuda")
    found = newest_prices(current.values_list("id", flat=True), "on-demand", REGION)
    dated = {price.machine_id for price in found.values() if price.as_of}
    gpus = set(Machine.objects.filter(pk__in=dated).values_list("device__slug", flat=True))
    assert len(dated) >= 40
    assert gpus >= {"t4", "a10g", "l4", "l40s", "v100-sxm2-32gb", "a100-sxm4-40gb"}
    assert gpus >= {"a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm-141gb"}


def test_every_value_of_a_gpu_names_its_source() -> None:
    for slug, values in shipped().devices.items():
        if values["kind"] != "cuda":
            continue
        given = {
            name for name in (*Device.SPEC_FIELDS, "memory_mib") if values.get(name) is not None
        }
        assert given <= values["sources"].keys(), slug


def test_a10g_is_not_an_a10() -> None:
    a10g, a10 = device("a10g"), device("a10")
    assert (a10g.multiprocessors, a10g.fp32_tflops, a10g.usable_memory_mib) == (80, 35.0, 22587)
    assert (a10.multiprocessors, a10.fp32_tflops) == (72, 31.2)
    assert {
        values["device"] for slug, values in shipped().machines.items() if "aws-g5." in slug
    } == {"a10g"}


def test_l4_has_58_multiprocessors() -> None:
    l4 = device("l4")
    assert (l4.multiprocessors, l4.bandwidth_gb_s) == (58, 300)
    assert l4.clock_mhz is not None
    assert 58 * 128 * 2 * l4.clock_mhz / 1e6 == pytest.approx(l4.fp32_tflops, rel=0.005)


@pytest.mark.parametrize(
    ("slug", "lanes"),
    [
        ("a10g", 128),
        ("l40s", 128),
        ("rtx-3090", 128),
        ("t4", 64),
        ("v100-sxm2-16gb", 64),
        ("a100-sxm4-40gb", 64),
        ("h100-sxm5-80gb", 128),
        ("p100-pcie-16gb", 64),
    ],
)
def test_peak_rates_follow_from_multiprocessors_and_clock(slug: str, lanes: int) -> None:
    gpu = device(slug)
    assert gpu.multiprocessors is not None
    assert gpu.clock_mhz is not None
    expected = gpu.multiprocessors * lanes * 2 * gpu.clock_mhz / 1e6
    assert gpu.fp32_tflops == pytest.approx(expected, rel=0.02)


def test_k80_and_m60_are_one_die_of_two() -> None:
    k80, m60 = device("k80"), device("m60")
    assert (k80.multiprocessors, k80.usable_memory_mib, k80.bandwidth_gb_s) == (13, 11441, 240)
    assert k80.fp32_tflops == pytest.approx(4.37)
    assert (m60.multiprocessors, m60.usable_memory_mib, m60.bandwidth_gb_s) == (16, 7606, 160)
    assert machine("aws-p2.xlarge").device_count == 1
    assert machine("aws-p2.16xlarge").device_count == 16
    assert machine("aws-g3.16xlarge").device_count == 4


def test_tf32_begins_with_ampere() -> None:
    for slug, values in shipped().devices.items():
        if values["kind"] == "cuda":
            has_tf32 = values["tf32_tflops"] is not None
            assert has_tf32 == (values["compute_capability"] >= 8), slug


def test_usable_memory_is_less_than_nominal() -> None:
    for slug, values in shipped().devices.items():
        if values["kind"] == "cuda":
            assert 0.85 < values["usable_memory_mib"] / values["memory_mib"] <= 1, slug


@pytest.mark.parametrize(
    ("slug", "before", "after"),
    [
        ("aws-p4d.24xlarge", "32.7726", "21.957642"),
        ("aws-p4de.24xlarge", "40.96575", "27.44705"),
        ("aws-p5.48xlarge", "98.32", "55.04"),
    ],
)
def test_prices_fell_in_june_2025_and_the_old_ones_are_history(
    slug: str, before: str, after: str
) -> None:
    assert newest_price(slug) == Decimal(after)
    old = [row for row in prices(slug) if row.as_of < "2025-06"]
    assert [(row.usd_per_hour, row.as_of) for row in old] == [(Decimal(before), "2025-01/2025-05")]


@pytest.mark.parametrize(
    ("slug", "usd_per_hour"),
    [
        ("aws-g4dn.xlarge", "0.526"),
        # Tables with slips say 2.264, 3.264 and shifted rows.
        ("aws-g4dn.8xlarge", "2.176"),
        ("aws-g5.16xlarge", "4.096"),
        ("aws-g5.12xlarge", "5.672"),
        ("aws-g5.24xlarge", "8.144"),
        ("aws-g5.48xlarge", "16.288"),
        ("aws-p5.4xlarge", "6.88"),
        ("aws-p5en.48xlarge", "63.296"),
        ("aws-p3dn.24xlarge", "31.212"),
        ("aws-g6e.xlarge", "1.861"),
    ],
)
def test_known_prices(slug: str, usd_per_hour: str) -> None:
    assert newest_price(slug) == Decimal(usd_per_hour)


def test_no_price_of_a_machine_strays_far_from_its_others() -> None:
    by_machine: dict[tuple[str, str], list[Decimal]] = {}
    for row in shipped().prices:
        by_machine.setdefault((row.machine, row.kind), []).append(row.usd_per_hour)
    for key, values in by_machine.items():
        assert max(values) / min(values) < 2, key


def test_the_price_of_one_gpu_is_plausible() -> None:
    for row in shipped().prices:
        count = shipped().machines[row.machine]["device_count"]
        assert Decimal("0.05") < row.usd_per_hour / count < Decimal(13), row


def test_undated_prices_are_empty_and_say_so() -> None:
    undated = [row for row in shipped().prices if not row.as_of]
    assert {row.machine.split("-")[0] for row in undated} == {"gcp", "azure", "paperspace"}
    assert all("undated" in row.source.lower() for row in undated)


def test_a_gpu_that_is_billed_apart_is_added_to_its_virtual_machine() -> None:
    rows = prices("gcp-n1-standard-8-nvidia-tesla-t4", "us-central1")
    assert [(row.usd_per_hour, row.as_of) for row in rows] == [(Decimal("0.73"), "")]
    assert "n1-standard-8 0.38 + nvidia-tesla-t4 0.35" in rows[0].source


def test_what_is_retired_says_according_to_whom() -> None:
    retired = {
        slug: values["note"]
        for slug, values in shipped().machines.items()
        if values["availability"] == "retired"
    }
    families = {slug.split(".")[0] for slug in retired if slug.startswith("aws-")}
    assert families == {"aws-p2", "aws-p3", "aws-g3", "aws-g3s"}
    assert all(len(note) > 20 for note in retired.values())
    assert machine("aws-p3dn.24xlarge").availability == "current"


def test_the_price_of_the_reference_machine_is_notional() -> None:
    rows = prices("reference-cpu")
    assert [(row.usd_per_hour, row.as_of, row.notional) for row in rows] == [
        (Decimal("0.1008"), "2026-07-28", True)
    ]
    assert "m7i.large" in rows[0].source
    assert not any(row.notional for row in shipped().prices if row.machine != "reference-cpu")


def test_the_local_machine_waits_for_its_first_measurement() -> None:
    local = machine("local")
    assert (local.device.slug, local.device.kind, local.device.usable_memory_mib) == (
        "local-cpu",
        "cpu",
        None,
    )
    assert prices("local", "") == []
    assert local.no_price_reason.startswith("No price known")


def test_the_reference_device_is_pinned_to_its_cpu() -> None:
    reference = device("reference-cpu")
    assert reference.cpu_signature == "6-167-1"
    assert reference.reported_name == "Intel(R) Xeon(R) Processor"
    assert reference.usable_memory_mib == 24105
