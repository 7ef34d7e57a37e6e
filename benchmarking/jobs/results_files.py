"""Files of results as people bring them: which formats there are and how each is read."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from benchmarking.probe.results import (
    MAXIMUM_LINE_BYTES,
    ResultError,
    ResultLine,
    parse_results,
)

MAXIMUM_FILE_BYTES = 2**30


class ResultsFileError(ValueError):
    """The file cannot be imported; the message names it and the reason in one line."""


def read_results_file(path: Path) -> list[ResultLine]:
    """All records of a results file.

    Raises ``ResultsFileError`` if it is unreadable, of a format that is not known, or wrong in
    any line.
    """
    reader = next(
        (reader for suffix, reader in _READERS.items() if path.name.endswith(suffix)), None
    )
    if reader is None:
        raise ResultsFileError(f"{path}: allowed are files that end in {', '.join(_READERS)}")
    try:
        return reader(path)
    except ResultError as error:
        raise ResultsFileError(f"{path}: {error}") from error
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ResultsFileError(f"{path}: cannot be read: {reason}") from error


def _read_probe_lines(path: Path) -> list[ResultLine]:
    with path.open("rb") as file:
        return list(parse_results(_bounded_lines(file)))


def _read_compressed_probe_lines(path: Path) -> list[ResultLine]:
    with gzip.open(path, "rb") as file:
        return list(parse_results(_bounded_lines(file)))


def _bounded_lines(file: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    """The lines of ``file``, none longer than a parser needs to refuse it."""
    read_bytes = 0
    while line := file.readline(MAXIMUM_LINE_BYTES + 1):
        read_bytes += len(line)
        if read_bytes > MAXIMUM_FILE_BYTES:
            raise OSError(f"holds more than {MAXIMUM_FILE_BYTES // 2**20} MiB")
        yield line


_READERS: dict[str, Callable[[Path], list[ResultLine]]] = {
    ".jsonl": _read_probe_lines,
    ".jsonl.gz": _read_compressed_probe_lines,
}
