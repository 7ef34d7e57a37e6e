"""The forecast page, its CSV and its JSON: the same rows, and one sentence where input is bad."""

from __future__ import annotations

import csv
import html
import io
import json
import re

import pytest
from django.core.management import call_command
from django.test import Client

from benchmarking.models import Architecture, Price
from benchmarking.tests.factories import create_price
from predictions.display import format_gib
from predictions.rows import ROW_KEYS

COMPARISON = (
    "architecture=resnet50&architecture=mobilenet_v2&machine=reference-cpu"
    "&machine=aws-p4d.24xlarge&machine=gcp-unpriced&device=t4&examples=50000&epochs=3"
    "&batch_sizes=1,2,16,192&loader_images_per_second=900"
)


@pytest.fixture
def page(catalogue, client: Client):
    """Fetch an address and give its response."""

    def fetch(query: str, path: str = "/", **headers: str):
        return client.get(f"{path}?{query}", headers=headers)

    return fetch


def text_of(response) -> str:
    return html.unescape(response.content.decode())


def exact_values(response) -> list[float]:
    return [float(value) for value in re.findall(r'<data[^>]* value="([^"]+)">', text_of(response))]


class TestSameRowsEverywhere:
    """U2: one query string gives equal rows, columns, units and order wherever it is asked."""

    def test_u2_json_csv_api_and_command_line(self, page):
        from_json = page(COMPARISON, "/forecast.json").json()
        from_api = page(COMPARISON, "/api/v1/predictions/").json()
        out = io.StringIO()
        call_command(
            "predict", "resnet50", "mobilenet_v2", "--machine", "reference-cpu",
            "aws-p4d.24xlarge", "gcp-unpriced", "--device", "t4", "--examples", "50000",
            "--epochs", "3", "--batch-sizes", "1,2,16,192", "--loader-images-per-second", "900",
            "--format", "json", stdout=out,
        )  # fmt: skip
        from_command_line = json.loads(out.getvalue())
        assert from_json == from_api == from_command_line
        assert len(from_json["rows"]) == 2 * 4 * 4
        assert [list(row) for row in from_json["rows"]] == [list(ROW_KEYS)] * 32

        lines = list(csv.DictReader(io.StringIO(text_of(page(COMPARISON, "/forecast.csv")))))
        assert [list(line) for line in lines] == [list(ROW_KEYS)] * 32
        for line, row in zip(lines, from_json["rows"]):
            for key, value in row.items():
                if value is None:
                    assert line[key] == ""
                elif isinstance(value, (int, float)):
                    assert float(line[key]) == value
                else:
                    assert line[key] == value

    def test_u2_extras_are_the_same_everywhere_and_every_row_says_so(self, page, catalogue):
        create_price(machine=catalogue["aws-g4dn.xlarge"], kind=Price.Kind.SPOT, usd_per_hour="0.2")
        query = (
            "architecture=resnet50&machine=aws-g4dn.xlarge&batch_sizes=8,32&epochs=9&price=spot"
            "&interruption_overhead=25&start_minutes=6&storage_gib=730"
            "&storage_usd_per_gib_month=0.1"
        )
        from_json = page(query, "/forecast.json").json()
        out = io.StringIO()
        call_command(
            "predict", "resnet50", "--machine", "aws-g4dn.xlarge", "--batch-sizes", "8,32",
            "--epochs", "9", "--price", "spot", "--interruption-overhead", "25",
            "--start-minutes", "6", "--storage-gib", "730", "--storage-usd-per-gib-month", "0.1",
            "--format", "json", stdout=out,
        )  # fmt: skip
        assert from_json == page(query, "/api/v1/predictions/").json()
        assert from_json == json.loads(out.getvalue())
        lines = list(csv.DictReader(io.StringIO(text_of(page(query, "/forecast.csv")))))
        note = (
            "Totals include 25 % more time for interruptions, 6 min to start the machine, "
            "730 GiB of storage at $0.1 per GiB-month"
        )
        for row, line in zip(from_json["rows"], lines, strict=True):
            assert list(row) == list(ROW_KEYS)
            seconds = 9 * row["epoch_seconds"] * 1.25 + 360
            assert row["total_seconds"] == pytest.approx(seconds)
            assert row["total_cost_usd"] == pytest.approx(seconds / 3600 * (0.2 + 0.1))
            assert row["note"] == note == line["note"]
            assert float(line["total_cost_usd"]) == row["total_cost_usd"]
        assert from_json["query"]["interruption_overhead"] == 25
        (answer,) = page(query, "/api/v1/advice/").json()["answers"]
        assert answer["cheapest"]["row"] == from_json["rows"][1]

    def test_the_page_without_javascript_holds_the_numbers_of_the_json(self, page):
        rows = page(COMPARISON, "/forecast.json").json()["rows"]
        shown = set(exact_values(page(COMPARISON)))
        for row in rows:
            for key in ("iteration_ms", "epoch_seconds", "total_seconds", "total_cost_usd",
                        "memory_mib", "images_per_second"):  # fmt: skip
                if row[key] is not None and row["iteration_ms"] is not None:
                    assert row[key] in shown

    def test_u1_links_to_csv_and_json_carry_the_query(self, page):
        text = text_of(page("architecture=resnet50&machine=reference-cpu&epochs=1"))
        assert 'href="/forecast.csv?architecture=resnet50&machine=reference-cpu"' in text
        assert 'href="/forecast.json?architecture=resnet50&machine=reference-cpu"' in text
        assert 'data-path="/?architecture=resnet50&machine=reference-cpu"' in text

    def test_csv_is_a_download_with_a_name(self, page):
        response = page("architecture=resnet50&machine=reference-cpu", "/forecast.csv")
        assert response["Content-Type"] == "text/csv; charset=utf-8"
        assert response["Content-Disposition"] == ('attachment; filename="epochcast-forecast.csv"')


class TestPage:
    def test_the_answer_in_figures_people_read(self, page):
        text = text_of(page("architecture=resnet50&machine=aws-g4dn.xlarge&examples=50000"))
        assert "<h3>Fastest</h3>" in text
        assert "<strong>aws-g4dn.xlarge</strong> at batch 128" in text
        assert "estimated" in text
        assert "All 11 batch sizes of resnet50 on aws-g4dn.xlarge" in text

    def test_the_table_says_which_machine_wins_what(self, page):
        text = text_of(
            page("architecture=resnet50&machine=aws-g4dn.xlarge&machine=aws-p4d.24xlarge")
        )
        titles = re.findall(r'scope="row">([^<]+)<small>.*?</small>(.*?)</th>', text)
        assert [(name, re.findall(r"won\">([^<]+)", won)) for name, won in titles] == [
            ("aws-g4dn.xlarge", ["cheapest", "best trade-off"]),
            ("aws-p4d.24xlarge", ["fastest"]),
        ]

    def test_without_a_query_there_is_an_example(self, page):
        response = page("")
        assert response.status_code == 200
        text = text_of(response)
        assert "This is an example." in text
        assert 'value="aws-g4dn.xlarge" checked' in text
        assert 'name="epochs" inputmode="numeric" autocomplete="off" value="90"' in text

    def test_u6_nothing_loaded_says_what_to_run(self, db, client):
        response = client.get("/")
        assert response.status_code == 200
        assert "Run <code>script/setup</code>" in text_of(response)

    def test_what_was_asked_stands_in_the_form(self, page):
        text = text_of(
            page("architecture=resnet50&machine=aws-p4d.24xlarge&examples=50000&precision=amp"
                 "&max_usd=9.5&image_size=224&price=on-demand")
        )  # fmt: skip
        assert 'value="50,000"' in text
        assert '<option value="amp" selected>' in text
        assert '<option value="224" selected>' in text
        assert 'name="max_usd" inputmode="decimal" value="9.5"' in text
        assert 'value="aws-p4d.24xlarge" checked' in text
        assert 'value="aws-g4dn.xlarge" checked' not in text

    def test_u3_assumptions_and_the_price_of_all_devices(self, page):
        text = text_of(page("architecture=resnet50&machine=aws-p4d.24xlarge&optimizer=adamw"))
        assert "aws-p4d.24xlarge uses 1 of 8 GPUs; you pay for all 8." in text
        assert "Optimizer AdamW; TF32; every batch is already on the device." in text
        assert "aws-p4d.24xlarge $21.957642/h on demand in us-east-1 (2026-01-01)" in text
        assert (
            "Left out: storage, start-up, data transfer, evaluation and checkpoints "
            "(storage and start-up can be added above)." in text
        )

    def test_spot_says_what_it_assumes_of_interruptions(self, page, catalogue):
        create_price(machine=catalogue["aws-g4dn.xlarge"], kind=Price.Kind.SPOT, usd_per_hour="0.2")
        query = "architecture=resnet50&machine=aws-g4dn.xlarge&price=spot"
        text = text_of(page(query))
        assert "Total time and cost include 10 % more time for interruptions." in text
        assert "10 % is an assumption, for work done again and new starts" in text
        text = text_of(page(f"{query}&interruption_overhead=30&storage_gib=100&start_minutes=4"))
        assert (
            "Total time and cost include 30 % more time for interruptions, 4 min to start the "
            "machine and 100 GiB of storage at $0.08 per GiB-month." in text
        )
        assert "the overhead of interruptions is yours." in text
        assert "Left out: data transfer, evaluation and checkpoints." in text

    def test_u6_old_prices_are_said_to_be_old(self, page, time_machine_at_november):
        text = text_of(page("architecture=resnet50&machine=aws-g4dn.xlarge"))
        assert "Prices here are up to 304 days old (aws-g4dn.xlarge: 2026-01-01)." in text

    def test_a_machine_that_cannot_do_it_says_why_in_the_table(self, page):
        text = text_of(
            page("architecture=resnet50&machine=aws-g4dn.xlarge&machine=aws-p4d.24xlarge"
                 "&precision=tf32")
        )  # fmt: skip
        assert "NVIDIA T4 has no tf32: it has fp32 and amp." in text

    def test_names_in_the_table_are_escaped(self, page):
        Architecture.objects.filter(slug="resnet50").update(family='<img src=x onerror="x">')
        raw = page("architecture=resnet50&machine=reference-cpu").content.decode()
        assert "<img" not in raw

    def test_no_script_stands_in_the_page(self, page):
        raw = page(COMPARISON).content.decode()
        scripts = re.findall(r"<script([^>]*)>", raw)
        assert [s for s in scripts if "src=" not in s] == [' id="figures" type="application/json"']
        assert not re.search(r"\son[a-z]+=", raw)
        own = raw.count('data-site="http://testserver"')
        assert (own, raw.replace("http://www.w3.org", "").count("http://")) == (1, 1)

    def test_u11_the_number_of_queries_does_not_grow(self, page, django_assert_num_queries):
        page(COMPARISON)
        page("architecture=resnet50&machine=reference-cpu&device=t4")
        with django_assert_num_queries(13):
            page("architecture=resnet50&machine=reference-cpu&device=t4")
        with django_assert_num_queries(13):
            page(COMPARISON)

    def test_u11_an_unchanged_page_is_not_sent_again(self, page):
        first = page("architecture=resnet50&machine=reference-cpu")
        again = page(
            "architecture=resnet50&machine=reference-cpu", **{"If-None-Match": first["ETag"]}
        )
        assert again.status_code == 304
        assert again.content == b""

    def test_only_reading_is_allowed(self, catalogue, client):
        refused = client.post("/", {})
        assert (refused.status_code, refused["Allow"]) == (405, "GET, HEAD")


class TestTableAlone:
    """The part of the page that is swapped where somebody looks at the table in another way."""

    QUERY = (
        "architecture=resnet50&architecture=mobilenet_v2&machine=aws-g4dn.xlarge"
        "&machine=reference-cpu"
    )

    @pytest.mark.parametrize(
        "view",
        [
            "times=hours",
            "per=epoch&sort=-total_cost_usd",
            "show=g4dn&chart=cost",
            "reference=resnet50@aws-g4dn.xlarge&sort=memory_mib",
        ],
    )
    def test_u1_it_is_the_pages_own_table_and_names_the_pages_address(self, page, view):
        alone = page(f"{self.QUERY}&{view}", "/forecast/table/")
        whole = page(f"{self.QUERY}&{view}")
        part = re.search(
            r'<table class="best stack">.*?<div class="actions">', text_of(alone), re.S
        )
        assert part[0] in text_of(whole)
        assert set(alone["HX-Replace-Url"].partition("?")[2].split("&")) == set(
            f"{self.QUERY}&{view}".split("&")
        )

    def test_u7_only_news_are_announced(self, page):
        status = re.compile(r'<span id="table-status" hx-swap-oob="innerHTML">(.*?)</span>', re.S)
        found = status.search(text_of(page(f"{self.QUERY}&show=g4dn", "/forecast/table/")))
        assert found[1].strip() == "2 of 4 lines shown"

    def test_a_link_with_only_a_view_shows_the_example_in_it(self, page):
        text = text_of(page("chart=cost&utm_source=letter"))
        assert "This is an example." in text
        assert 'data-chosen="cost"' in text

    def test_a_reference_that_is_not_compared_is_said(self, page):
        text = text_of(page(f"{self.QUERY}&reference=vgg16@aws-g4dn.xlarge"))
        assert "The reference vgg16@aws-g4dn.xlarge is not in this comparison" in text


class TestMeasuring:
    QUERY = "architecture=resnet50&machine=aws-g4dn.xlarge&machine=reference-cpu"

    def test_u4_a_machine_without_timings_says_what_measuring_takes(self, page):
        text = text_of(page(self.QUERY))
        (sentence,) = re.findall(r"Not measured: [^<]*", text)
        assert re.match(
            r"Not measured: \d layers are missing, measuring them takes "
            r"about \d min and \$0\.\d\d\.",
            sentence,
        )

    def test_u10_only_staff_find_the_way_to_a_benchmark(self, page, client, django_user_model):
        link = '<a href="/jobs/new/?machine=aws-g4dn.xlarge&architecture=resnet50">Plan it</a>'
        assert link not in text_of(page(self.QUERY))
        client.force_login(django_user_model.objects.create_user("op", is_staff=True))
        assert text_of(page(self.QUERY)).count(link) == 1


@pytest.fixture
def time_machine_at_november():
    import time_machine

    with time_machine.travel("2026-11-01T00:00:00Z", tick=False):
        yield


BAD_QUERIES = [
    ("architecture=resnet5", "architecture", "Unknown CNN 'resnet5'. Did you mean resnet50?"),
    ("machine=refrence-cpu", "machine", "Did you mean reference-cpu?"),
    ("precision=fp23", "precision", "Unknown precision 'fp23': it is one of"),
    ("batch_sizes=0", "batch_sizes", "Batch sizes are whole numbers from 1 to 4096"),
    ("batch_sizes=8-4", "batch_sizes", "a range goes from small to large"),
    ("batch_sizes=1-10000000", "batch_sizes", "Batch sizes are whole numbers from 1 to 4096"),
    ("examples=-5", "examples", "Examples must be a whole number from 1 to 10,000,000,000"),
    ("examples=99999999999", "examples", "Examples must be a whole number"),
    ("epochs=0", "epochs", "Epochs must be a whole number from 1 to 100,000"),
    ("max_usd=nan", "max_usd", "above 0"),
    ("max_hours=-1", "max_hours", "above 0"),
    ("max_memory_gib=much", "max_memory_gib", "above 0"),
    ("loader_images_per_second=1e-99", "loader_images_per_second", "from 0.001 to 10,000,000"),
    ("interruption_overhead=-1", "interruption_overhead", "percent from 0 to 1,000"),
    ("start_minutes=soon", "start_minutes", "minutes from 0 to 1,440"),
    ("storage_gib=1e9", "storage_gib", "GiB from 0 to 1,000,000"),
    ("storage_usd_per_gib_month=nan", "storage_usd_per_gib_month", "per GiB-month from 0 to"),
    ("price=sport", "price", "Did you mean spot?"),
    ("optimizer=adam", "optimizer", "Did you mean adamw?"),
    ("device=t44", "device", "Did you mean t4?"),
    ("image_size=300", "image_size", "No layers are known at 300 px."),
    ("region=atlantis", "region", "No price is known for region 'atlantis'."),
    ("epochs=1&epochs=2", "epochs", "Give epochs once"),
    ("exmaples=5", "exmaples", "Did you mean examples?"),
]
BAD_VIEWS = [
    ("times=years", "times", "Unknown unit of times 'years': it is one of words, hours, seconds."),
    ("sort=speed", "sort", "Unknown sorting 'speed': it is one of name, batch_size"),
    ("reference=t4", "reference", "The reference is a CNN and a machine, as in resnet50@aws-"),
    ("show=" + "x" * 201, "show", "at most 200 printable characters"),
    ("per=year", "per", "Unknown span of costs 'year': it is one of total, epoch."),
    ("chart=pie", "chart", "Unknown chart 'pie': it is one of epoch-time, cost, time-cost."),
]


class TestBadInput:
    @staticmethod
    def whole(bad: str) -> str:
        parts = [bad]
        if "architecture=" not in bad:
            parts.append("architecture=resnet50")
        if "machine=" not in bad:
            parts.append("machine=reference-cpu")
        return "&".join(parts)

    @pytest.mark.parametrize(("bad", "field", "sentence"), [*BAD_QUERIES, *BAD_VIEWS])
    def test_the_page_says_it_beside_the_field(self, page, bad, field, sentence):
        response = page(self.whole(bad))
        assert response.status_code == 400
        text = text_of(response)
        assert sentence in text
        assert re.search(rf'id="{field}-error">[^<]*{re.escape(sentence)}', text)
        assert "Traceback" not in text

    @pytest.mark.parametrize("path", ["/forecast.json", "/forecast.csv", "/api/v1/predictions/"])
    @pytest.mark.parametrize(("bad", "field", "sentence"), BAD_QUERIES)
    def test_programs_get_a_problem_document(self, page, path, bad, field, sentence):
        response = page(self.whole(bad), path)
        assert response.status_code == 400
        assert response["Content-Type"] == "application/problem+json"
        problem = json.loads(response.content)
        assert (problem["status"], problem["type"]) == (400, "about:blank")
        (error,) = problem["errors"]
        assert error["parameter"] == field
        assert sentence in error["detail"]

    @pytest.mark.parametrize(("bad", "field", "sentence"), BAD_VIEWS)
    def test_the_table_alone_refuses_a_view_as_the_page_does(self, page, bad, field, sentence):
        response = page(self.whole(bad), "/forecast/table/")
        assert response.status_code == 400
        (error,) = json.loads(response.content)["errors"]
        assert error["parameter"] == field
        assert sentence in error["detail"]

    @pytest.mark.parametrize(("bad", "field", "sentence"), BAD_VIEWS)
    def test_u2_programs_pass_the_view_over(self, page, bad, field, sentence):
        plain = page(self.whole("epochs=2"), "/forecast.csv").content
        assert page(f"{self.whole('epochs=2')}&{bad}", "/forecast.csv").content == plain

    @pytest.mark.parametrize("path", ["/forecast.json", "/forecast.csv", "/api/v1/predictions/"])
    def test_programs_need_a_cnn_and_a_machine(self, page, path):
        errors = json.loads(page("", path).content)["errors"]
        assert [error["parameter"] for error in errors] == ["architecture", "machine"]

    @pytest.mark.parametrize("path", ["/", "/forecast.json", "/api/v1/predictions/"])
    def test_thousands_of_repeats(self, page, path):
        response = page("&".join(["machine=reference-cpu"] * 600), path)
        assert response.status_code == 400
        assert "at most 400 values" in text_of(response)

    def test_more_fields_than_django_reads(self, page):
        response = page("&".join(["machine=reference-cpu"] * 1500))
        assert response.status_code == 400
        assert "It holds too many values" in response.content.decode()

    def test_what_was_typed_is_escaped(self, page):
        raw = page("architecture=<script>alert(1)</script>&machine=reference-cpu").content.decode()
        assert "<script>alert" not in raw
        assert "Unknown CNN &#x27;&lt;script&gt;" in raw

    def test_nothing_is_stored_for_a_refused_query(self, page):
        from predictions.models import ForecastCurve

        page("architecture=resnet50&machine=reference-cpu&epochs=0")
        assert ForecastCurve.objects.count() == 0


class TestMemoryMargin:
    """Beside the verdict stands how much of the device's usable memory is left or missing."""

    @pytest.mark.parametrize(
        ("batch_size", "sentence"),
        [
            (16, "{margin} of the 14.7 GiB usable are left."),
            (192, "Needs {margin} more than the 14.7 GiB usable."),
        ],
    )
    def test_margin_of_the_best_batch(self, page, batch_size: int, sentence: str):
        query = f"architecture=resnet50&machine=aws-g4dn.xlarge&batch_sizes={batch_size}"
        row = page(query, "/forecast.json").json()["rows"][0]
        margin = format_gib(abs(15102.0 - row["memory_mib"]))
        assert sentence.format(margin=margin) in text_of(page(query))
