"""Batch sizes as people write them."""

from __future__ import annotations

import pytest

from benchmarking.batch_sizes import BatchSizesError, parse_batch_sizes


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1", (1,)),
        ("1-4", (1, 2, 3, 4)),
        ("32,8, 16", (8, 16, 32)),
        ("1-3,2-5,8", (1, 2, 3, 4, 5, 8)),
        ("65536", (65536,)),
    ],
)
def test_lists_and_ranges_are_read(text: str, sizes: tuple[int, ...]) -> None:
    assert parse_batch_sizes(text) == sizes


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0", "a batch size is from 1 to 65536"),
        ("8-4", "the range 8-4 runs backwards"),
        ("1-10000000", "a batch size is from 1 to 65536"),
        ("1-1000", "at most 512 sizes are allowed"),
        ("1-300,400-700", "at most 512 sizes are allowed"),
        ("", "'' is no batch size"),
        ("1,,2", "'' is no batch size"),
        ("-4", "'-4' is no batch size"),
        ("1.5", "'1.5' is no batch size"),
        ("many", "'many' is no batch size"),
        ("٣", "'٣' is no batch size"),
    ],
)
def test_anything_else_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BatchSizesError) as refused:
        parse_batch_sizes(text)
    assert str(refused.value) == f"batch sizes {text!r}: {reason}; write 1-16 or 8,16,32"
