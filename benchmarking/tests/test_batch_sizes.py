"""Batch sizes as people write them."""

from __future__ import annotations

import pytest

from benchmarking.batch_sizes import BatchSizesError, format_batch_sizes, parse_batch_sizes


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1", (1,)),
        ("1-4", (1, 2, 3, 4)),
        ("32,8, 16", (8, 16, 32)),
        ("1-3,2-5,8", (1, 2, 3, 4, 5, 8)),
        ("1 - 3,,8,", (1, 2, 3, 8)),
        ("65536", (65536,)),
    ],
)
def test_lists_and_ranges_are_read(text: str, sizes: tuple[int, ...]) -> None:
    assert parse_batch_sizes(text) == sizes


ALLOWED = "Batch sizes are whole numbers from 1 to 65536, as in 1-64 or 8,16,32"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", f"{ALLOWED} (got '0')."),
        ("8-4", f"{ALLOWED}: a range goes from small to large (4-8, not 8-4)."),
        ("1-10000000", f"{ALLOWED} (got '1-10000000')."),
        ("1-1000", "At most 512 batch sizes at a time (got 1000)."),
        ("1-300,400-700", "At most 512 batch sizes at a time (got 601)."),
        ("", f"{ALLOWED} (got '')."),
        (" , ", f"{ALLOWED} (got ' , ')."),
        ("-4", f"{ALLOWED} (got '-4')."),
        ("1.5", f"{ALLOWED} (got '1.5')."),
        ("many", f"{ALLOWED} (got 'many')."),
        ("٣", f"{ALLOWED} (got '٣')."),
    ],
)
def test_anything_else_is_refused(text: str, message: str) -> None:
    with pytest.raises(BatchSizesError) as refused:
        parse_batch_sizes(text)
    assert str(refused.value) == message


def test_limits_can_be_lower() -> None:
    with pytest.raises(BatchSizesError, match=r"from 1 to 64, .* \(got '65'\)"):
        parse_batch_sizes("65", largest=64)
    with pytest.raises(BatchSizesError, match="At most 3 batch sizes"):
        parse_batch_sizes("1-4", most=3)


@pytest.mark.parametrize(
    ("sizes", "text"),
    [((1, 2, 3, 8), "1-3,8"), ((1, 2, 8, 9), "1,2,8,9"), ((), ""), ((4, 5, 6), "4-6")],
)
def test_runs_of_three_are_written_as_ranges(sizes: tuple[int, ...], text: str) -> None:
    assert format_batch_sizes(sizes) == text
