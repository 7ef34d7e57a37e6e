"""A network of one's own in a real browser: upload, forecast, keep, delete."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from benchmarking.tests.onnx_import.graphs import small_network
from predictions.tests.uploads.conftest import onnx_file
from predictions.uploads.models import OwnNetwork
from predictions.uploads.services import upload_network

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PAGE = "/architectures/own/"


def choose(page, content: bytes) -> None:
    page.get_by_label("ONNX file").set_input_files(
        {"name": "my net.onnx", "mimeType": "application/octet-stream", "buffer": content}
    )
    page.get_by_role("button", name="Read it and forecast").click()


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_a_file_is_uploaded_forecast_kept_and_deleted(visit, scripts):
    window = visit(java_script_enabled=scripts)
    window.open("/")
    page = window.page
    page.get_by_role("link", name="your own network").click()
    choose(page, b"no network")
    expect(page.get_by_label("ONNX file")).to_have_attribute("aria-invalid", "true")
    choose(page, small_network())
    page.wait_for_url("**/own/*/**")
    expect(page).to_have_title("Your own network - Epochcast")
    expect(page.locator("h1")).to_have_text("my net")
    expect(page.locator(".card")).to_have_count(3)
    page.get_by_label("Ask to measure the rest on").select_option("aws-g4dn.xlarge")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_text("Asked for: aws-g4dn.xlarge.")).to_be_visible()
    page.get_by_role("button", name="Keep it").click()
    expect(page.get_by_text("It is kept until you delete it.")).to_be_visible()
    page.get_by_role("link", name="Charts and every batch size").click()
    expect(page.locator(".best > tbody")).to_have_count(2)
    page.go_back()
    page.get_by_role("button", name="Delete it now").click()
    expect(page.get_by_text("The network is deleted")).to_be_visible()
    assert OwnNetwork.objects.count() == 0
    assert window.foreign_addresses == []


@pytest.fixture
def paths(catalogue) -> list[str]:
    """The form, a private page, and a forecast of it beside a public CNN."""
    network = upload_network(onnx_file())
    slug = network.architecture.slug
    return [
        PAGE,
        f"/own/{network.token}/",
        f"/?architecture={slug}&architecture=resnet50&machine=aws-g4dn.xlarge",
        f"/own/{'x' * 22}/",
    ]


def test_u8_no_page_of_uploads_is_wider_than_a_phone(visit, paths):
    window = visit(viewport={"width": 360, "height": 740}, color_scheme="dark")
    for path in paths:
        window.open(path)
        assert window.width == 360, path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_u8_axe_finds_nothing_serious_on_pages_of_uploads(visit, paths, scheme):
    window = visit(color_scheme=scheme)
    for path in paths:
        window.open(path)
        assert window.serious_findings() == [], path
