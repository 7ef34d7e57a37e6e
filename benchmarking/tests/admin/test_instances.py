"""Cloud instances in the admin: seen by state and region, with their cost, and never changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.urls import reverse

from benchmarking.models import CloudInstance
from benchmarking.tests import factories

pytestmark = pytest.mark.django_db

CHANGE_LIST = "admin:benchmarking_cloudinstance_changelist"
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def create_instance(**values: Any) -> CloudInstance:
    defaults: dict[str, Any] = {
        "job": factories.create_job(machine=factories.create_machine()),
        "attempt": 1,
        "region": "us-east-1",
        "zone": "us-east-1a",
        "instance_type": "g4dn.xlarge",
        "client_token": f"token {CloudInstance.objects.count()}",
        "request": {"ImageId": "ami-1"},
        "user_data_sha256": "0" * 64,
        "usd_per_hour": Decimal("0.5"),
        "reserved_usd": Decimal(1),
        "launched_at": NOON - timedelta(hours=3),
        "expires_at": NOON,
    }
    return CloudInstance.objects.create(**{**defaults, **values})


def test_instances_are_listed_with_what_they_cost(admin_client: Client) -> None:
    create_instance(instance_id="i-running", state="running")
    create_instance(
        instance_id="i-over", state="terminated", region="eu-west-1", cost_usd=Decimal("0.25")
    )
    with time_machine.travel(NOON, tick=False):
        page = admin_client.get(reverse(CHANGE_LIST)).content.decode()
        running = admin_client.get(reverse(CHANGE_LIST), {"state": "running"}).content.decode()
        europe = admin_client.get(reverse(CHANGE_LIST), {"region": "eu-west-1"}).content.decode()

    assert '<td class="field-usd_so_far">1.50</td>' in page
    assert '<td class="field-usd_so_far">0.25</td>' in page
    assert ("i-running" in running, "i-over" in running) == (True, False)
    assert ("i-running" in europe, "i-over" in europe) == (False, True)


def test_instance_is_shown_and_cannot_be_changed(admin_client: Client) -> None:
    instance = create_instance(instance_id="i-running", state="running")
    address = reverse("admin:benchmarking_cloudinstance_change", args=[instance.pk])

    assert "i-running" in admin_client.get(address).content.decode()
    assert admin_client.post(address, {"state": "terminated"}).status_code == 403
    assert admin_client.get(reverse("admin:benchmarking_cloudinstance_add")).status_code == 403
    instance.refresh_from_db()
    assert instance.state == "running"


def test_list_costs_the_same_queries_however_long_it_is(
    admin_client: Client, django_assert_num_queries: Any
) -> None:
    create_instance()
    admin_client.get(reverse(CHANGE_LIST))
    with django_assert_num_queries(9) as few:
        admin_client.get(reverse(CHANGE_LIST))
    for _ in range(5):
        create_instance()
    with django_assert_num_queries(len(few)):
        admin_client.get(reverse(CHANGE_LIST))
