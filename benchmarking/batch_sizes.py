"""Batch sizes as people write them."""

from __future__ import annotations

import re

MAXIMUM_BATCH_SIZE = 65_536
MAXIMUM_COUNT = 512

_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


class BatchSizesError(ValueError):
    """The text is no list of batch sizes; the message says what is allowed."""


def parse_batch_sizes(text: str) -> tuple[int, ...]:
    """The batch sizes of ``1-16`` or ``1,2,4`` or both mixed, in ascending order.

    Raises ``BatchSizesError`` on anything else, on sizes below 1 or above 65536, on a range
    that runs backwards and on more than 512 sizes.
    """
    sizes: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise _error(text, f"{part.strip()!r} is no batch size")
        low = int(match[1])
        high = int(match[2] or match[1])
        if low < 1 or high > MAXIMUM_BATCH_SIZE:
            raise _error(text, f"a batch size is from 1 to {MAXIMUM_BATCH_SIZE}")
        if low > high:
            raise _error(text, f"the range {low}-{high} runs backwards")
        if high - low >= MAXIMUM_COUNT or len(sizes) > MAXIMUM_COUNT:
            raise _error(text, f"at most {MAXIMUM_COUNT} sizes are allowed")
        sizes.update(range(low, high + 1))
    if len(sizes) > MAXIMUM_COUNT:
        raise _error(text, f"at most {MAXIMUM_COUNT} sizes are allowed")
    return tuple(sorted(sizes))


def _error(text: str, reason: str) -> BatchSizesError:
    shown = text if len(text) <= 40 else text[:37] + "..."
    return BatchSizesError(f"batch sizes {shown!r}: {reason}; write 1-16 or 8,16,32")
