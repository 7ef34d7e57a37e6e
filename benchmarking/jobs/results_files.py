"""Files of results as people bring them: which formats there are and how each is read."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from benchmarking.jobs.dnnmark_logs import LogHints, read_dnnmark_log
from benchmarking.jobs.provenance import ProvenanceError
from benchmarking.probe.results import (
    MAXIMUM_LINE_BYTES,
    ResultError,
    ResultLine,
    parse_results,
)

MAXIMUM_FILE_BYTES = 2**30
# The log of every layer of every known CNN takes a tenth of this.
MAXIMUM_LOG_BYTES = 2**28


class ResultsFileError(ValueError):
    """The file cannot be imported; the message names it and the reason in one line."""


def read_results_file(path: Path, hints: LogHints | None = None) -> list[ResultLine]:
    """All records of a file: lines of the probe (.jsonl), else a log of DNNMark; either gzipped.

    Parameters
    ----------
    hints
        What is said about a log of DNNMark that may not say it itself.

    Raises
    ------
    ResultsFileError
        If it is unreadable, of neither format, wrong in any line, or a log that nobody says enough
        about.
    """
    try:
        with _opened(path) as file:
            if path.name.removesuffix(".gz").endswith(".jsonl"):
                return list(parse_results(_bounded_lines(file, MAXIMUM_FILE_BYTES)))
            lines = _bounded_lines(file, MAXIMUM_LOG_BYTES)
            return read_dnnmark_log(path, lines, hints or LogHints())
    except (ProvenanceError, ResultError) as error:
        raise ResultsFileError(f"{path}: {error}") from error
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ResultsFileError(f"{path}: cannot be read: {reason}") from error


def _opened(path: Path) -> BinaryIO | gzip.GzipFile:
    return gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb")


def _bounded_lines(file: BinaryIO | gzip.GzipFile, maximum_bytes: int) -> Iterator[bytes]:
    """The lines of ``file``, none longer than a parser needs to refuse it."""
    read_bytes = 0
    while line := file.readline(MAXIMUM_LINE_BYTES + 1):
        read_bytes += len(line)
        if read_bytes > maximum_bytes:
            raise OSError(f"holds more than {maximum_bytes // 2**20} MiB")
        yield line
