"""A value that is made once, whoever comes first."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarking.kept_values import kept_value


def test_value_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "value"
    numbers = itertools.count(1)

    values = [kept_value(path, lambda: f"{next(numbers)}\n") for _ in range(3)]

    assert values == ["1", "1", "1"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["value"]


def test_processes_that_come_at_once_agree(tmp_path: Path) -> None:
    path = tmp_path / "value"
    numbers = itertools.count()

    with ThreadPoolExecutor(8) as threads:
        values = list(threads.map(lambda _: kept_value(path, lambda: str(next(numbers))), range(8)))

    assert set(values) == {path.read_text()}
