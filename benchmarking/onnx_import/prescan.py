"""Counts what is in an ONNX file by walking over its bytes, before any parser builds objects.

A file of a few megabytes can name a million nodes, which a parser would turn into gigabytes. The
walk skips over the content of every entry (Protocol Buffers' wire format: a key, then a varint,
eight or four bytes, or a length and that many bytes) and stops at the first count over a limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarking.onnx_import.errors import OnnxError

GRAPH_FIELD = 7
NODE_FIELD = 1
INITIALIZER_FIELD = 5

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_LONGEST_VARINT = 10


class MalformedError(ValueError):
    """The bytes are not in the wire format, or end in the middle of an entry."""


def refuse_too_many_entries(data: bytes, limits: Mapping[int, tuple[int, str]]) -> None:
    """Walk over the graph's entries and refuse more of a field than its limit.

    ``limits`` maps a field of the graph to the largest number and the plural word for it. Raises
    ``OnnxError``, or ``MalformedError`` where the bytes make no sense.
    """
    counts = dict.fromkeys(limits, 0)
    for field, start, end in _entries(data, 0, len(data)):
        if field != GRAPH_FIELD:
            continue
        for inner, _, _ in _entries(data, start, end):
            if inner not in counts:
                continue
            counts[inner] += 1
            limit, word = limits[inner]
            if counts[inner] > limit:
                raise OnnxError(
                    f"The graph has more than {limit:,} {word}, which is the most allowed.",
                    code="too_many_nodes" if inner == NODE_FIELD else "too_many_tensors",
                )


def _entries(data: bytes, position: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Field number, start and end of the content of each entry."""
    while position < end:
        key, position = _varint(data, position, end)
        field, kind = key >> 3, key & 7
        start = position
        if kind == _VARINT:
            _, position = _varint(data, position, end)
        elif kind == _LENGTH:
            length, start = _varint(data, position, end)
            position = start + length
        elif kind == _EIGHT_BYTES:
            position += 8
        elif kind == _FOUR_BYTES:
            position += 4
        else:
            raise MalformedError(f"unknown kind {kind}")
        if field == 0 or position > end:
            raise MalformedError("cut off")
        yield field, start, position


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    value = 0
    for number in range(_LONGEST_VARINT):
        if position >= end:
            raise MalformedError("cut off")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return value, position
    raise MalformedError("a number is too long")
