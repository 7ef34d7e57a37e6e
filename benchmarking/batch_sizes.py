"""Batch sizes as people write them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchmarking.suggestions import quoted

LARGEST_BATCH_SIZE = 65_536
MOST_BATCH_SIZES = 512

_PART = re.compile(r"([0-9]{1,12})(?:\s*-\s*([0-9]{1,12}))?")


class BatchSizesError(ValueError):
    """The text is no list of batch sizes; the message is a sentence that says what is allowed."""


def parse_batch_sizes(
    text: str, *, largest: int = LARGEST_BATCH_SIZE, most: int = MOST_BATCH_SIZES
) -> tuple[int, ...]:
    """The batch sizes of ``1-16`` or ``1,2,4`` or both mixed, in ascending order.

    Raises ``BatchSizesError`` on anything else, on sizes below 1 or above ``largest``, on a range
    that runs backwards and on more than ``most`` sizes.
    """
    allowed = f"Batch sizes are whole numbers from 1 to {largest}, as in 1-64 or 8,16,32"
    sizes: set[int] = set()
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = _PART.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not (1 <= first <= largest and last <= largest):
            raise BatchSizesError(f"{allowed} (got {quoted(part)}).")
        if last < first:
            raise BatchSizesError(
                f"{allowed}: a range goes from small to large ({last}-{first}, not {part})."
            )
        sizes.update(range(first, last + 1))
    if not sizes:
        raise BatchSizesError(f"{allowed} (got {quoted(text)}).")
    if len(sizes) > most:
        raise BatchSizesError(f"At most {most} batch sizes at a time (got {len(sizes)}).")
    return tuple(sorted(sizes))


def format_batch_sizes(batch_sizes: Sequence[int]) -> str:
    """Ascending batch sizes as text, runs of three or more as a range: ``1-16,24,32``."""
    parts: list[str] = []
    start = 0
    while start < len(batch_sizes):
        end = start
        while end + 1 < len(batch_sizes) and batch_sizes[end + 1] == batch_sizes[end] + 1:
            end += 1
        if end - start >= 2:
            parts.append(f"{batch_sizes[start]}-{batch_sizes[end]}")
        else:
            parts += [str(size) for size in batch_sizes[start : end + 1]]
        start = end + 1
    return ",".join(parts)
