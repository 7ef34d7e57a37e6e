"""Machines, architectures, about, method and the log-in in a real browser, and all on paper."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from benchmarking.models import Architecture
from benchmarking.tests.factories import (
    create_iteration_timing,
    create_layer_timing,
    create_price,
    create_run,
)

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

MACHINE_WITH_CHART = "/machines/aws-g4dn.xlarge/"
PAGES = [
    MACHINE_WITH_CHART,
    "/machines/reference-cpu/",
    "/machines/?q=nothing",
    "/architectures/resnet50/224/",
    "/architectures/?q=nothing",
    "/about/",
    "/method/",
    "/admin/login/",
]
A4_WIDTH = 794


@pytest.fixture
def filled(catalogue) -> None:
    """Prices with a history, on demand and spot, and timings of layers and iterations."""
    for kind, usd in (("on-demand", "0.7"), ("spot", "0.2")):
        for month in (1, 2):
            create_price(
                machine=catalogue["aws-g4dn.xlarge"],
                kind=kind,
                usd_per_hour=usd,
                as_of=f"2025-0{month}",
            )
    run = create_run(machine=catalogue["reference-cpu"])
    network = Architecture.objects.get(slug="resnet50")
    create_iteration_timing(run=run, architecture=network, batch_size=8)
    create_layer_timing(run=run, layer=network.uses.first().layer)


def test_u8_the_price_chart_has_a_title_words_and_lines_that_differ_without_colour(filled, visit):
    window = visit()
    window.open_with_chart(MACHINE_WITH_CHART)
    page = window.page
    plot = page.get_by_role("img", name="Price of an hour over time")
    expect(page.locator(f"#{plot.get_attribute('aria-describedby')}")).to_contain_text(
        "Spot in us-east-1: $0.20 from 2025-01 to 2025-02."
    )
    lines = plot.locator(".lines .js-line")
    dashes = {
        line.evaluate("each => getComputedStyle(each).strokeDasharray") for line in lines.all()
    }
    assert "none" in dashes and len(dashes) == 2
    shapes = [
        mark.get_attribute("d")[:1] + str(mark.get_attribute("d").count("L"))
        for mark in plot.locator(".points .point").all()
    ]
    assert len(shapes) == 5 and len(set(shapes)) == 2
    assert window.messages == []
    assert window.foreign_addresses == []


def test_u1_a_list_is_searched_while_typing_and_the_search_is_in_the_address(visit):
    window = visit()
    window.open("/machines/")
    page = window.page
    field = page.get_by_label("Machine, provider or GPU")
    field.press_sequentially("t4 aws")
    page.wait_for_url("**/machines/?q=t4%20aws")
    expect(page.locator("#count")).to_have_text("2 machines found")
    expect(page.locator("#found tbody")).to_have_count(2)
    expect(field).to_be_focused()
    address = page.url
    field.fill("")
    page.wait_for_url("**/machines/")
    expect(page.locator("#found tbody")).to_have_count(6)
    page.goto(address)
    expect(field).to_have_value("t4 aws")
    expect(page.locator("#found tbody")).to_have_count(2)
    assert window.messages == []
    assert window.foreign_addresses == []


@pytest.mark.parametrize("path", ["/machines/", "/architectures/"])
def test_u6_a_list_is_searched_without_javascript_and_says_what_to_try(visit, path):
    window = visit(java_script_enabled=False)
    window.open(path)
    page = window.page
    rows = page.locator("#found tbody").count()
    page.get_by_role("searchbox").fill("zebra")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#found")).to_contain_text("holds these words")
    page.get_by_role("link", name="show all").click()
    expect(page.locator("#found tbody")).to_have_count(rows)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 1200), ("dark", 360)])
def test_u8_nothing_sticks_out_and_axe_finds_nothing_serious(filled, visit, scheme, width):
    window = visit(color_scheme=scheme, viewport={"width": width, "height": 900})
    for path in PAGES:
        window.open(path)
        assert window.serious_findings() == [], path
        assert window.width == width, path
    assert window.messages == []
    assert window.foreign_addresses == []


class TestPaper:
    @pytest.fixture
    def paper(self, filled, visit):
        """Open a page on a dark screen, then lay it out for A4."""

        def lay_out(path: str):
            window = visit(color_scheme="dark")
            window.open_with_chart(path)
            window.page.emulate_media(media="print", color_scheme="dark")
            window.page.set_viewport_size({"width": A4_WIDTH, "height": 1123})
            return window

        return lay_out

    def test_what_only_a_screen_can_do_is_left_out(self, paper):
        window = paper("/?architecture=resnet50&machine=aws-g4dn.xlarge")
        page = window.page
        for hidden in (".site-nav", ".site-footer", ".tabs", ".table-tools", ".more", "#copy-link"):
            expect(page.locator(hidden).first).to_be_hidden()
        expect(page.get_by_role("button", name="Forecast")).to_be_hidden()
        expect(page.locator("#plain-link")).to_be_visible()
        printed = page.locator("#plain-link").evaluate(
            "each => getComputedStyle(each, '::after').content"
        )
        address = f"{window.base}/?architecture=resnet50&machine=aws-g4dn.xlarge"
        assert printed == f'": {address}"'
        for shown in (".sentence", ".card", ".chart", "table.best", ".assume"):
            expect(page.locator(shown).first).to_be_visible()

    def test_paper_is_light_on_a_dark_screen_and_so_are_the_charts(self, paper):
        for path in ("/?architecture=resnet50&machine=aws-g4dn.xlarge", MACHINE_WITH_CHART):
            page = paper(path).page
            colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert colour == "rgb(255, 255, 255)"
            label = page.locator(".plot:visible .xtick text").first
            expect(label).to_have_css("fill", "rgb(51, 51, 51)")

    def test_no_table_and_no_chart_is_cut(self, paper):
        for path in ("/?architecture=resnet50&machine=reference-cpu", MACHINE_WITH_CHART):
            page = paper(path).page
            cut = page.evaluate(
                """() => [...document.querySelectorAll("table, .plot .main-svg")]
                    .filter(each => each.getBoundingClientRect().right > innerWidth)
                    .map(each => each.outerHTML.slice(0, 80))"""
            )
            assert cut == []


class TestApiPage:
    # The packaged page has a link inside of the button that opens an operation. Both are made by
    # its script: no template and no style of ours reaches them.
    PACKAGED = "nested-interactive"

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_u8_axe_finds_nothing_serious(self, visit, scheme):
        window = visit(color_scheme=scheme)
        window.open("/api/docs/")
        window.page.wait_for_selector(".opblock")
        assert window.serious_findings(without=self.PACKAGED) == []
        assert window.messages == []
        assert window.foreign_addresses == []

    def test_u8_an_open_operation_can_be_read(self, visit):
        window = visit()
        window.open("/api/docs/")
        page = window.page
        page.locator(".opblock-get .opblock-summary-control").first.click()
        page.get_by_role("button", name="Try it out").click()
        expect(page.get_by_role("button", name="Execute")).to_be_visible()
        rules = [rule for rule, _ in window.serious_findings()]
        assert "color-contrast" not in rules
