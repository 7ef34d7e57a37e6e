"""Every promise has a test that names it."""

from __future__ import annotations

import pytest

from predictor_site.tests.promises import PROMISES, files_of_promises, promises_in_name


@pytest.mark.parametrize(
    ("name", "promises"),
    [
        ("test_r7_swapped_key", ["R7"]),
        ("test_r1_r22_every_accident", ["R1", "R22"]),
        ("test_u12_advice", ["U12"]),
        ("test_run_is_stored", []),
        ("test_r7", []),
    ],
)
def test_promises_are_what_a_name_begins_with(name: str, promises: list[str]) -> None:
    assert promises_in_name(name) == promises


def test_every_promise_has_a_test_and_every_test_names_one_that_there_is() -> None:
    found = files_of_promises()

    assert [promise for promise in PROMISES if not found[promise]] == []
    assert sorted(found) == sorted(PROMISES)
