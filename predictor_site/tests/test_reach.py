"""What is run once more on PostgreSQL and Redis."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest
from celery.signals import before_task_publish

from predictor_site.tests.reach import may_reach_servers, noted_tasks

pytest_plugins = ["pytester"]

TASK = "from regression.tasks import retrain_machine"
MODULE = "from benchmarking import tasks"
APPLICATION = "from predictor_site.celery import app"
FIXTURE = """
@pytest.fixture
def rows(db): ...
"""


@pytest.fixture
def item_of(pytester: pytest.Pytester) -> Callable[..., pytest.Item]:
    """The collected test of a module with these lines before it."""

    def collect(before: str, arguments: str = "", marker: str = "") -> pytest.Item:
        pytester.makeini("[pytest]\nmarkers = \n    postgres\n    redis\n    e2e\n    torch\n")
        source = f"import pytest\n{before}\n{marker}\ndef test_it({arguments}): ...\n"
        return pytester.getitem(textwrap.dedent(source), "test_it")

    return collect


@pytest.mark.parametrize(
    ("before", "arguments", "marker"),
    [
        ("", "db", ""),
        ("", "transactional_db", ""),
        ("", "live_server", ""),
        (FIXTURE, "rows", ""),
        ("pytestmark = pytest.mark.django_db", "", ""),
        ("", "", "@pytest.mark.django_db"),
        ("", "", "@pytest.mark.postgres"),
        ("", "", "@pytest.mark.redis"),
        ("", "", "@pytest.mark.e2e"),
        (TASK, "", ""),
        (MODULE, "", ""),
        (APPLICATION, "", ""),
    ],
)
def test_what_reaches_a_server(item_of, before: str, arguments: str, marker: str) -> None:
    assert may_reach_servers(item_of(before, arguments, marker))


@pytest.mark.parametrize(
    ("before", "arguments", "marker"),
    [("", "", ""), ("import json", "tmp_path", "@pytest.mark.torch"), ("", "client", "")],
)
def test_what_reaches_none(item_of, before: str, arguments: str, marker: str) -> None:
    assert not may_reach_servers(item_of(before, arguments, marker))


@pytest.mark.servers
def test_tasks_are_noted_while_a_test_runs() -> None:
    with noted_tasks() as sent:
        before_task_publish.send(sender="regression.tasks.retrain_machine")
    before_task_publish.send(sender="later")

    assert sent == ["regression.tasks.retrain_machine"]
