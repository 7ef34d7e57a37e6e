"""The accuracy page in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from predictions.tests.evaluations import store_evaluation

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def evaluated(catalogue) -> None:
    store_evaluation(catalogue["reference-cpu"])


def test_both_charts_are_drawn_and_the_console_is_clean(evaluated, visit):
    window = visit()
    window.open_with_chart("/accuracy/")
    page = window.page
    expect(page.locator(".plot:visible .points path")).to_have_count(3)
    page.get_by_role("tab", name="Errors").click()
    page.wait_for_selector(
        '.plot[aria-label="Error over measured time on reference-cpu"] .main-svg'
    )
    expect(page.locator(".chart:visible h4")).to_have_text(
        "Error over measured time on reference-cpu"
    )
    assert window.messages == []
    assert window.foreign_addresses == []


def test_without_a_script_every_point_can_be_read(evaluated, visit):
    window = visit(java_script_enabled=False)
    window.open("/accuracy/")
    window.page.get_by_text("All 3 points of reference-cpu").click()
    expect(window.page.get_by_role("cell", name="-20.0 %")).to_be_visible()
    expect(window.page.locator(".plot:visible")).to_have_count(0)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 1200), ("light", 360)])
def test_nothing_sticks_out_and_axe_finds_nothing_serious(evaluated, visit, scheme, width):
    window = visit(color_scheme=scheme, viewport={"width": width, "height": 900})
    window.open_with_chart("/accuracy/")
    opened = "document.querySelectorAll('details').forEach(each => each.open = true)"
    window.page.evaluate(opened)
    assert window.width == width
    assert window.serious_findings() == []
