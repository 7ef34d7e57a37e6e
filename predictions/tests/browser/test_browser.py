"""The site in a real browser. The names say which promise to its users each test keeps."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

COMPARISON = (
    "/?architecture=resnet50&architecture=mobilenet_v2&machine=reference-cpu"
    "&machine=aws-p4d.24xlarge&machine=aws-g4dn.xlarge&epochs=9&batch_sizes=1-8,16,256"
)
VIEWED = (
    f"{COMPARISON}&times=hours&per=epoch&sort=-total_cost_usd&chart=cost"
    "&reference=resnet50@aws-g4dn.xlarge&price=spot&start_minutes=5&storage_gib=200"
)
PAGES = [
    "/",
    "/machines/",
    "/machines/reference-cpu/",
    "/architectures/",
    "/architectures/resnet50/224/",
    "/accuracy/",
    "/method/",
    "/no-such-page/",
    "/?architecture=resnet5&machine=reference-cpu&epochs=0",
]


def test_a_chart_is_drawn_the_console_is_clean_and_nothing_leaves_the_host(visit):
    window = visit()
    window.open_with_chart(COMPARISON)
    page = window.page
    expect(page.locator(".chart:visible")).to_have_count(1)
    expect(page.locator(".plot:visible .scatterlayer .trace")).to_have_count(19)
    for tab, title in (("Cost", "Cost over batch size"), ("Time against cost",) * 2):
        page.get_by_role("tab", name=tab, exact=True).click()
        page.wait_for_selector(f'.plot[aria-label="{title}"] .main-svg')
        expect(page.locator(".chart:visible h3")).to_have_text(title)
    page.wait_for_url("**&chart=time-cost")
    assert window.messages == []
    assert window.foreign_addresses == []


def test_u11_the_table_is_there_before_any_script_and_only_the_chart_in_front_is_drawn(visit):
    window = visit()
    window.open(COMPARISON)
    page = window.page
    expect(page.locator(".plot:has(.main-svg)")).to_have_count(1)
    page.get_by_role("tab", name="Cost", exact=True).click()
    expect(page.locator(".plot:has(.main-svg)")).to_have_count(2)
    source = page.request.get(window.base + COMPARISON).text()
    assert source.index("All 10 batch sizes of resnet50") < source.index("plotly-basic.min.js")
    assert re.search(r'<script src="[^"]*plotly-basic.min.js" defer>', source)


def test_u1_any_view_is_a_url(visit):
    window = visit()
    window.open_with_chart("/?architecture=resnet50&machine=reference-cpu")
    page = window.page
    page.get_by_label("Epochs").fill("90")
    page.locator(".picker summary").nth(1).click()
    page.get_by_label("Search machines").fill("g4dn")
    page.get_by_role("checkbox", name="aws-g4dn.xlarge").check()
    page.get_by_role("button", name="Forecast").click()
    page.wait_for_url("**epochs=90**")
    assert page.url == (
        f"{window.base}/?architecture=resnet50&epochs=90&machine=reference-cpu"
        "&machine=aws-g4dn.xlarge"
    ) or page.url == (
        f"{window.base}/?architecture=resnet50&epochs=90&machine=aws-g4dn.xlarge"
        "&machine=reference-cpu"
    )
    expect(page.locator(".best > tbody")).to_have_count(2)


def test_u2_the_csv_that_the_page_offers_has_the_rows_of_its_json(visit, tmp_path: Path):
    window = visit(accept_downloads=True)
    window.open(COMPARISON)
    with window.page.expect_download() as download:
        window.page.get_by_role("link", name="CSV").click()
    file = tmp_path / "rows.csv"
    download.value.save_as(file)
    path = window.page.get_by_role("link", name="JSON").get_attribute("href")
    rows = json.loads(window.page.request.get(window.base + path).text())["rows"]
    with file.open(newline="", encoding="utf-8") as lines:
        read = list(csv.DictReader(lines))
    assert [(line["architecture"], line["machine"], line["batch_size"]) for line in read] == [
        (row["architecture"], row["machine"], str(row["batch_size"])) for row in rows
    ]
    assert [line["epoch_seconds"] for line in read] == [
        "" if row["epoch_seconds"] is None else repr(row["epoch_seconds"]) for row in rows
    ]


def test_u3_the_table_sorts_and_what_has_no_answer_stays_below(visit):
    window = visit()
    window.open(
        "/?architecture=resnet50&machine=aws-g4dn.xlarge&machine=aws-p4d.24xlarge"
        "&machine=reference-cpu&precision=amp"
    )
    page = window.page
    heading = page.get_by_role("link", name="Total cost")
    places = page.locator(".best > tbody > tr > th")
    heading.click()
    expect(page.locator('th[aria-sort="ascending"]')).to_have_text("Total cost")
    expect(places).to_contain_text(["aws-g4dn.xlarge", "aws-p4d.24xlarge", "reference-cpu"])
    page.wait_for_url("**&sort=total_cost_usd")
    heading.click()
    expect(page.locator('th[aria-sort="descending"]')).to_have_text("Total cost")
    expect(places).to_contain_text(["aws-p4d.24xlarge", "aws-g4dn.xlarge", "reference-cpu"])
    page.wait_for_url("**&sort=-total_cost_usd")
    expect(heading).to_be_focused()
    assert window.messages == []


def test_u3_where_the_sorted_column_goes_the_nearest_one_that_stays_is_sorted_by(visit):
    window = visit()
    window.open(COMPARISON)
    page = window.page
    sorting = page.get_by_label("Sorted by")
    sorting.select_option("total time, descending")
    page.wait_for_url("**&sort=-total_seconds")
    page.get_by_label("Costs of").select_option("one epoch")
    page.wait_for_url("**&per=epoch&sort=-epoch_seconds")
    expect(page.locator('th[aria-sort="descending"]')).to_have_text("Epoch time")
    expect(sorting).to_have_value("-epoch_seconds")
    times = page.locator('.best > tbody > tr > [data-label="Epoch time"] data').all()
    seconds = [float(time.get_attribute("value")) for time in times]
    assert len(seconds) == 6 and seconds == sorted(seconds, reverse=True)
    assert window.messages == []


def test_u3_the_table_filters_shows_other_units_and_compares_with_a_reference(visit):
    window = visit()
    window.open(COMPARISON)
    page = window.page
    page.get_by_label("Show").press_sequentially("mobilenet g4dn")
    expect(page.locator(".best > tbody:visible")).to_have_count(1)
    expect(page.locator("#table-status")).to_have_text("1 of 6 lines shown")
    expect(page.get_by_label("Show")).to_have_value("mobilenet g4dn")
    time = page.locator('.best > tbody > tr > [data-label="Epoch time"] data').first
    words = time.inner_text()
    assert words.endswith(("min", "s"))
    page.get_by_label("Times in").select_option("seconds")
    expect(time).to_have_text(re.compile(r"^[0-9.,]+ s$"))
    seconds = float(time.get_attribute("value"))
    assert float(time.inner_text()[:-2].replace(",", "")) == pytest.approx(seconds, rel=0.1)
    page.get_by_label("Costs of").select_option("one epoch")
    expect(page.get_by_role("columnheader", name="Cost of an epoch").first).to_be_visible()
    page.get_by_label("Relative to").select_option("mobilenet_v2 on reference-cpu")
    expect(page.locator(".ratio").first).to_have_text(re.compile("x reference$"))
    page.get_by_label("Times in").select_option("words")
    expect(time).to_have_text(words)
    assert window.messages == []


def test_u1_a_link_reproduces_every_choice_around_the_table_and_the_chart(visit):
    window = visit()
    window.open_with_chart(COMPARISON)
    page = window.page
    page.get_by_role("tab", name="Cost", exact=True).click()
    page.get_by_label("Times in").select_option("hours")
    page.wait_for_url("**times=hours**")
    page.get_by_role("link", name="Memory").click()
    page.wait_for_url("**sort=memory_mib**")
    page.get_by_label("Relative to").select_option("resnet50 on aws-g4dn.xlarge")
    page.wait_for_url("**reference=resnet50@aws-g4dn.xlarge**")
    path = page.locator("#copy-link").get_attribute("data-path")
    assert page.url == window.base + path
    assert path.endswith(
        "&times=hours&sort=memory_mib&reference=resnet50@aws-g4dn.xlarge&chart=cost"
    )
    table = page.locator("table.best").inner_text()

    fresh = visit()
    fresh.open_with_chart(path)
    expect(fresh.page.locator(".chart:visible h3")).to_have_text("Cost over batch size")
    expect(fresh.page.get_by_label("Times in")).to_have_value("hours")
    assert fresh.page.locator("table.best").inner_text() == table

    plain = visit(java_script_enabled=False)
    plain.open(path)
    assert plain.page.locator("table.best").inner_text() == table

    page.get_by_role("button", name="Forecast").click()
    page.wait_for_url("**&epochs=9&**")
    expect(page.get_by_label("Times in")).to_have_value("hours")
    expect(page.locator("table.best")).to_have_text(re.compile("x reference"))


def test_u6_a_table_that_does_not_come_is_said_and_the_one_before_stays(visit):
    window = visit()
    window.open(COMPARISON)
    page = window.page
    page.route("**/forecast/table/**", lambda route: route.abort())
    page.get_by_label("Times in").select_option("hours")
    expect(page.locator("#table-status")).to_contain_text("The table could not be loaded")
    expect(page.locator(".best > tbody")).to_have_count(6)
    expect(page.locator("#table-answer")).not_to_have_attribute("aria-busy", "true")


def test_u6_without_javascript_the_tools_of_the_table_work(visit):
    window = visit(java_script_enabled=False)
    window.open(COMPARISON)
    page = window.page
    page.get_by_label("Show").fill("g4dn")
    page.get_by_label("Times in").select_option("hours")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**times=hours**")
    expect(page.locator(".best > tbody")).to_have_count(2)
    page.get_by_role("link", name="Epoch time").click()
    page.wait_for_url("**sort=epoch_seconds**")
    expect(page.locator(".best > tbody")).to_have_count(2)
    expect(page.get_by_label("Times in")).to_have_value("hours")


def test_u6_without_javascript_the_table_and_the_form_are_there(visit):
    window = visit(java_script_enabled=False)
    window.open("/?architecture=resnet50&machine=reference-cpu&examples=50000")
    page = window.page
    expect(page.locator(".range tbody tr")).to_have_count(9)
    expect(page.locator(".range tbody tr").first).to_be_visible()
    expect(page.get_by_role("link", name="Link to this forecast")).to_be_visible()
    expect(page.get_by_role("button", name="Copy link")).to_be_hidden()
    page.get_by_label("Epochs").fill("3")
    page.get_by_role("button", name="Forecast").click()
    page.wait_for_url("**epochs=3**")
    expect(page.locator(".best summary")).to_contain_text("All 9 batch sizes")


def test_u8_everything_works_by_keyboard(visit):
    window = visit()
    window.open_with_chart("/?architecture=resnet50&machine=reference-cpu")
    page = window.page
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.locator(".picker summary").first.focus()
    page.keyboard.press("Enter")
    page.keyboard.type("mobile")
    expect(page.locator(".picker-panel label:visible")).to_have_count(1)
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Escape")
    expect(page.locator(".picker .chosen").first).to_have_text("2 CNNs")
    page.locator('[role="tab"][aria-selected="true"]').focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Cost", exact=True)).to_be_focused()
    expect(page.locator(".chart:visible h3")).to_have_text("Cost over batch size")


@pytest.mark.parametrize("opening", ["Enter", None], ids=["after Enter", "without opening it"])
@pytest.mark.parametrize("number", [0, 1], ids=["CNNs", "machines"])
def test_u8_letters_typed_at_a_picker_all_reach_its_search(visit, number, opening):
    window = visit()
    window.open("/?architecture=resnet50&machine=reference-cpu")
    page = window.page
    picker = page.locator(".picker").nth(number)
    picker.locator("summary").focus()
    if opening:
        page.keyboard.press(opening)
    page.keyboard.type("resnet50 x")
    expect(picker.get_by_role("searchbox")).to_have_value("resnet50 x")
    expect(picker.get_by_role("searchbox")).to_be_focused()


def test_u8_a_picker_that_opens_late_does_not_take_the_focus_back(visit):
    window = visit()
    window.open("/?architecture=resnet50&machine=reference-cpu")
    page = window.page
    picker = page.locator(".picker").first
    picker.locator("summary").focus()
    page.keyboard.type("m")
    box = picker.get_by_role("checkbox", name="mobilenet_v2")
    box.focus()
    picker.evaluate("each => each.dispatchEvent(new Event('toggle'))")
    expect(box).to_be_focused()


def test_bad_input_stands_beside_its_field(visit):
    window = visit()
    window.open("/?architecture=resnet50&machine=reference-cpu&epochs=0")
    field = window.page.get_by_label("Epochs")
    expect(field).to_have_attribute("aria-invalid", "true")
    described = field.get_attribute("aria-describedby")
    expect(window.page.locator(f"#{described}")).to_have_text(
        "Epochs must be a whole number from 1 to 100,000 (got '0')."
    )


@pytest.mark.parametrize("path", [*PAGES, COMPARISON, VIEWED])
def test_u8_no_page_is_wider_than_a_phone(visit, path):
    window = visit(viewport={"width": 360, "height": 740}, color_scheme="dark")
    window.open(path)
    assert window.page.evaluate("document.documentElement.scrollWidth") == 360
    assert window.foreign_addresses == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 1200), ("light", 360)])
@pytest.mark.parametrize("path", [*PAGES, COMPARISON, VIEWED])
def test_u8_axe_finds_nothing_serious(visit, path, scheme, width):
    from axe_playwright_python.sync_playwright import Axe

    window = visit(color_scheme=scheme, viewport={"width": width, "height": 900})
    window.open(path)
    if window.page.locator(".plot").count():
        window.page.wait_for_selector(".plot .main-svg")
    found = Axe().run(window.page).response["violations"]
    serious = [
        (one["id"], [node["html"] for node in one["nodes"]][:3])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_api_docs_load_nothing_from_elsewhere(visit):
    window = visit()
    window.open("/api/docs/")
    window.page.wait_for_selector(".opblock")
    assert window.foreign_addresses == []
    assert [text for text in window.messages if "Content Security Policy" in text] == []
