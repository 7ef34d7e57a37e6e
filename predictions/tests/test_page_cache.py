"""Kept answers: the same bytes until anything changes, and nothing of anybody's own."""

from __future__ import annotations

import gzip
import threading
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import connection, connections, transaction
from django.http import HttpResponse
from django.middleware.csrf import get_token
from django.test import Client, RequestFactory, override_settings
from django.test.utils import CaptureQueriesContext

from benchmarking.models import Architecture, Device, Machine, Price
from benchmarking.signals import timings_stored
from benchmarking.tests.factories import create_architecture, create_price
from predictions import page_cache
from predictions.data_version import DataVersion
from predictions.models import ForecastCurve, OwnNetwork
from predictions.page_cache import KeptAnswer, KeptAnswers, kept_for_visitors
from predictions.uploads.tokens import OWN_PREFIX
from predictions.views import forecast as views
from regression.signals import models_trained

QUERY = "architecture=resnet50&machine=aws-g4dn.xlarge"
PATHS = ["/", "/forecast.csv", "/forecast.json"]

# Rows that are written in a test's own transaction could still be undone: nothing is kept there.
on_committed_rows = pytest.mark.django_db(transaction=True)


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The query strings that were answered anew."""
    asked: list[str] = []

    def count(query):
        asked.append(query.to_query_string())
        return make_forecast(query)

    make_forecast = views.make_forecast
    monkeypatch.setattr(views, "make_forecast", count)
    return asked


@pytest.fixture
def ask(catalogue, answered, client: Client) -> Callable[..., HttpResponse]:
    """Fetch an address that has been fetched before."""

    def fetch(path: str = "/", query: str = QUERY, **headers: str) -> Any:
        return client.get(f"{path}?{query}", headers={"Accept-Encoding": "gzip"} | headers)

    fetch()
    fetch()
    answered.clear()
    return fetch


def text_of(response: HttpResponse) -> str:
    return gzip.decompress(response.content).decode()


@pytest.fixture
def kept(answered) -> Callable[[Callable[[], Any]], Any]:
    """Fetch until nothing had to be answered anew.

    Once is enough on SQLite; a server of several databases may write something in between.
    """

    def fetch(once: Callable[[], Any]) -> Any:
        for _ in range(20):
            answered.clear()
            response = once()
            if not answered:
                return response
        raise AssertionError("every time the answer was made anew")

    return fetch


@on_committed_rows
class TestSameAnswer:
    @pytest.mark.parametrize("path", PATHS)
    def test_the_second_answer_has_the_bytes_of_the_first(self, ask, kept, path):
        first, second = ask(path), kept(lambda: ask(path))
        assert second.content == first.content
        assert second.headers == first.headers
        assert "resnet50" in text_of(second)

    def test_on_sqlite_the_second_answer_is_always_kept(self, ask, answered):
        for path in PATHS:
            ask(path)
        answered.clear()
        for path in PATHS:
            ask(path)
        assert connection.vendor != "sqlite" or answered == []

    @pytest.mark.parametrize("path", PATHS)
    def test_a_kept_answer_says_what_an_answer_made_anew_says(self, ask, kept, path):
        old = kept(lambda: ask(path))
        with transaction.atomic():
            anew = ask(path)
        assert text_of(old) == text_of(anew)
        for name in ("ETag", "Content-Type", "Content-Encoding", "Content-Disposition"):
            assert old.get(name) == anew.get(name)
        assert {"Accept-Encoding", "Cookie"} <= set(old["Vary"].split(", "))

    def test_one_question_about_the_version_is_all_that_the_database_is_asked(self, ask, kept):
        def count() -> int:
            with CaptureQueriesContext(connection) as queries:
                ask()
            return len(queries)

        assert kept(count) == 1

    def test_who_takes_no_gzip_gets_the_same_page(self, ask, kept):
        packed = kept(ask)
        plain = kept(lambda: ask(**{"Accept-Encoding": "identity"}))
        assert "Content-Encoding" not in plain
        assert plain.content == gzip.decompress(packed.content)
        assert packed["ETag"] == f"W/{plain['ETag']}"

    @pytest.mark.parametrize("encoding", ["gzip", "identity"])
    def test_what_the_browser_has_is_not_sent_again(self, ask, kept, encoding):
        accepted = {"Accept-Encoding": encoding}
        first = kept(lambda: ask(**accepted))
        again = kept(lambda: ask(**accepted, **{"If-None-Match": first["ETag"]}))
        assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
        other = kept(lambda: ask(**accepted, **{"If-None-Match": '"something-else"'}))
        assert other.status_code == 200

    def test_head_has_the_headers_of_get(self, ask, kept, client):
        got = kept(ask)
        head = kept(lambda: client.head(f"/?{QUERY}", headers={"Accept-Encoding": "gzip"}))
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers == got.headers


def change_price() -> None:
    create_price(machine=Machine.objects.get(slug="aws-g4dn.xlarge"), usd_per_hour="9.75")


def retire_machine() -> None:
    Machine.objects.filter(slug="aws-g4dn.xlarge").update(availability="retired")


def speed_up_device() -> None:
    Device.objects.filter(slug="t4").update(fp32_tflops=81.0)


def trace_again() -> None:
    Architecture.objects.filter(slug="resnet50").update(multiply_adds=1)


def store_timings() -> None:
    timings_stored.send(None, machine_id=Machine.objects.get(slug="aws-g4dn.xlarge").pk)


def train() -> None:
    models_trained.send(None, device_id=Device.objects.get(slug="t4").pk, stack_id=0)


def change_by_hand() -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE benchmarking_price SET usd_per_hour = 9.75")


def forget_curves() -> None:
    ForecastCurve.objects.all().delete()


CHANGES = [
    change_price,
    retire_machine,
    speed_up_device,
    trace_again,
    store_timings,
    train,
    change_by_hand,
    forget_curves,
    lambda: Price.objects.all().delete(),
    lambda: create_architecture(slug="newnet"),
]


@on_committed_rows
class TestNeverStale:
    def test_every_change_of_the_data_makes_new_answers_at_once(self, ask, answered):
        for change in CHANGES:
            for path in PATHS:
                ask(path)
            answered.clear()
            change()
            changed = [text_of(ask(path)) for path in PATHS]
            assert len(answered) == len(PATHS), change
            with transaction.atomic():
                assert [text_of(ask(path)) for path in PATHS] == changed, change

    def test_a_new_price_stands_on_the_next_page(self, ask):
        assert "$9.75/h" not in text_of(ask())
        change_price()
        assert "$9.75/h" in text_of(ask())

    @pytest.mark.parametrize("news", [store_timings, train])
    def test_new_timings_and_models_compute_the_curves_again(self, ask, regression, news):
        regression.asked.clear()
        news()
        ask()
        assert [asked[:2] for asked in regression.asked] == [("resnet50", "aws-g4dn.xlarge")]

    def test_what_another_process_writes_counts(self, ask):
        def write() -> None:
            try:
                change_price()
            finally:
                connections.close_all()

        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        assert "$9.75/h" in text_of(ask())

    def test_what_is_undone_was_never_kept(self, ask):
        before = text_of(ask())
        with transaction.atomic():
            change_price()
            assert "$9.75/h" in text_of(ask())
            transaction.set_rollback(True)
        assert text_of(ask()) == before

    def test_a_write_while_the_page_was_made_is_not_kept(self, ask, answered, monkeypatch):
        def write_meanwhile(query):
            forecast = make_forecast(query)
            change_price()
            return forecast

        make_forecast = views.make_forecast
        change_by_hand()
        with monkeypatch.context() as patched:
            patched.setattr(views, "make_forecast", write_meanwhile)
            ask()
        ask()
        assert len(answered) == 2

    def test_the_next_day_says_how_old_prices_are_then(self, ask):
        with time_machine.travel("2026-11-01T23:59:00Z", tick=False) as clock:
            assert "up to 304 days old" in text_of(ask())
            clock.shift(timedelta(minutes=2))
            assert "up to 305 days old" in text_of(ask())


def set_a_cookie(request, response) -> None:
    response.set_cookie("taste", "1")


def take_a_token_for_forms(request, response) -> None:
    get_token(request)


def say_private(request, response) -> None:
    response["Cache-Control"] = "private"


def vary_by_language(request, response) -> None:
    response["Vary"] = "Accept-Language"


def find_nothing(request, response) -> None:
    response.status_code = 404


SPOILS = [set_a_cookie, take_a_token_for_forms, say_private, vary_by_language, find_nothing]


@on_committed_rows
class TestNothingPrivate:
    def test_staff_never_see_nor_leave_a_kept_page(self, ask, answered, client):
        staff = Client()
        staff.force_login(User.objects.create_user("operator", is_staff=True))
        ask()
        answered.clear()
        for _ in range(2):
            page = staff.get(f"/?{QUERY}", headers={"Accept-Encoding": "gzip"})
            assert 'href="/jobs/"' in text_of(page)
        assert len(answered) == 2
        assert 'href="/jobs/"' not in text_of(ask())

    def test_a_cookie_of_the_site_asks_for_an_answer_of_its_own(self, ask, answered):
        for name in ("sessionid", "csrftoken", "messages"):
            client = Client()
            client.cookies[name] = "x" * 32
            answered.clear()
            client.get(f"/?{QUERY}")
            client.get(f"/?{QUERY}")
            assert len(answered) == 2, name

    @pytest.mark.parametrize("written", ["{slug}", "%6Fwn-{token}", "resnet50&architecture={slug}"])
    def test_own_networks_are_never_kept(self, ask, answered, written):
        token = "AbCdEfGhIjKlMnOpQrStUv"
        slug = f"{OWN_PREFIX}{token}"
        network = create_architecture(slug=slug, source=Architecture.UPLOADED, image_size=224)
        own = OwnNetwork.objects.create(architecture=network, label="mine")
        query = "machine=aws-g4dn.xlarge&architecture=" + written.format(slug=slug, token=token)
        for _ in range(2):
            assert "is your own network" in text_of(ask(query=query))
        assert len(answered) == 2
        with time_machine.travel(own.expires_at + timedelta(seconds=1), tick=False):
            gone = ask(query=query)
        assert gone.status_code == 400
        assert "There is no private network" in text_of(gone)

    def test_refusals_are_not_kept(self, ask, monkeypatch):
        forms = Mock(wraps=views.make_form)
        monkeypatch.setattr(views, "make_form", forms)
        for _ in range(2):
            refused = ask(query="architecture=resnet5&machine=aws-g4dn.xlarge")
            assert refused.status_code == 400
            assert "Did you mean resnet50?" in text_of(refused)
        assert forms.call_count == 2

    @staticmethod
    def answers_of(view: Callable[..., HttpResponse]) -> list[bytes]:
        kept, path = kept_for_visitors(view), f"/{uuid.uuid4()}"
        return [kept(RequestFactory().get(path)).content for _ in range(2)]

    @pytest.mark.parametrize("spoil", SPOILS, ids=lambda spoil: spoil.__name__)
    def test_an_answer_that_is_for_one_is_given_to_one(self, spoil):
        numbers = iter(range(10))

        def view(request):
            response = HttpResponse(str(next(numbers)))
            spoil(request, response)
            return response

        assert self.answers_of(view) == [b"0", b"1"]

    def test_an_answer_for_all_is_given_to_all(self):
        def ask_twice() -> list[bytes]:
            numbers = iter(range(10))
            return self.answers_of(lambda request: HttpResponse(str(next(numbers))))

        assert [b"0", b"0"] in [ask_twice() for _ in range(20)]

    def test_whoever_writes_templates_sees_them_change(self):
        numbers = iter(range(10))
        with override_settings(DEBUG=True):
            assert self.answers_of(lambda request: HttpResponse(str(next(numbers)))) == [b"0", b"1"]


@on_committed_rows
class TestNothingShared:
    def test_distinct_queries_have_distinct_answers(self, ask, answered):
        for other in (
            f"{QUERY}&epochs=2",
            f"{QUERY}&examples=50000",
            f"{QUERY}&batch_sizes=8",
            f"{QUERY}&architecture=mobilenet_v2",
            "machine=aws-g4dn.xlarge&architecture=resnet50",
            f"{QUERY}&utm_source=1",
        ):
            answered.clear()
            ask(query=other)
            assert len(answered) == 1, other

    def test_page_csv_and_json_are_three(self, ask):
        assert len({ask(path)["Content-Type"] for path in PATHS for _ in range(2)}) == 3

    def test_a_part_of_a_page_is_no_page(self, ask, answered):
        ask(**{"HX-Request": "true"})
        assert len(answered) == 1

    def test_hosts_and_schemes_are_kept_apart(self, ask, answered, client):
        client.get(f"/?{QUERY}", headers={"Host": "localhost"})
        client.get(f"/?{QUERY}", secure=True)
        assert len(answered) == 2


class TestBounds:
    @staticmethod
    def answer(size: int) -> KeptAnswer:
        return KeptAnswer(b"x" * size, {}, '"etag"')

    def test_what_nobody_asked_for_longest_goes_first(self, monkeypatch):
        monkeypatch.setattr(page_cache, "MOST_KEPT_BYTES", 100)
        kept = KeptAnswers()
        kept.get(1, ("a",))
        for name in "ab":
            kept.put((name,), self.answer(40))
        assert kept.get(1, ("a",)) == self.answer(40)
        kept.put(("c",), self.answer(40))
        assert [kept.get(1, (name,)) is None for name in "abc"] == [False, True, False]

    def test_an_answer_that_is_too_large_is_not_kept(self, monkeypatch):
        monkeypatch.setattr(page_cache, "MOST_KEPT_BYTES", 100)
        kept = KeptAnswers()
        kept.get(1, ("a",))
        kept.put(("a",), self.answer(101))
        kept.put(("b",), self.answer(99))
        assert [kept.get(1, (name,)) is None for name in "ab"] == [True, False]

    @pytest.mark.parametrize("letter", ["x", "ä", "€", "\U0001f600"])
    def test_long_addresses_count_as_the_bytes_that_they_are(self, monkeypatch, letter):
        monkeypatch.setattr(page_cache, "MOST_KEPT_BYTES", 10_000)
        kept = KeptAnswers()
        keys = [("https", f"{number}", 1000 * letter) for number in range(20)]
        kept.get(1, keys[0])
        for key in keys:
            kept.put(key, self.answer(1))
        fitting = 10_000 // (5 + 1 + 1000 * len(letter.encode()) + 1)
        still_kept = [key for key in keys if kept.get(1, key) is not None]
        assert still_kept == keys[-fitting:]
        # What went was counted off again: as many fit after hundreds more.
        for number in range(300):
            kept.put(("https", f"{number:03}", 997 * letter), self.answer(1))
        newest = ("https", "299", 997 * letter)
        assert kept.get(1, newest) == self.answer(1)

    def test_another_version_forgets_all(self):
        kept = KeptAnswers()
        kept.get(1, ("a",))
        kept.put(("a",), self.answer(1))
        assert kept.get(2, ("a",)) is None
        assert kept.get(1, ("a",)) is None

    def test_versions_of_two_connections_do_not_compare(self):
        opened, other = object(), object()
        assert DataVersion(opened, (2, 7)) == DataVersion(opened, (2, 7))
        assert DataVersion(opened, (2, 7)) != DataVersion(opened, (2, 8))
        assert DataVersion(opened, (2, 7)) != DataVersion(other, (2, 7))
