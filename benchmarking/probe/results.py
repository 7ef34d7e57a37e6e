"""What the probe prints, as typed records; anything else is refused with its line and a reason.

Results may come from any machine by any way, so nothing in them is trusted: every number is
checked before a row is made of it. One file may hold several runs, each begun by its
``environment`` line. No Django and no torch here.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from benchmarking.probe.checked_fields import (
    CheckedFields,
    ResultError,
    shown,
    without_unstorable,
)
from benchmarking.specs import ConvolutionSpec, Engine, Optimizer, Pass, Precision, StackSpec

__all__ = [
    "ConvolutionLine",
    "DoneLine",
    "EnvironmentLine",
    "ErrorLine",
    "FailureKind",
    "IterationLine",
    "ResultError",
    "ResultLine",
    "StoppedBy",
    "TimingLine",
    "parse_line",
    "parse_results",
    "read_layer",
    "split_complete_lines",
]

SCHEMA = 1
MAXIMUM_LINE_BYTES = 1_000_000
MAXIMUM_EXTENT = 1_000_000
MAXIMUM_BATCH_SIZE = 1_000_000
MAXIMUM_ROUND = 10_000
MAXIMUM_MESSAGE_CHARACTERS = 300

_LAYER_SIZES = tuple(field.name for field in fields(ConvolutionSpec) if field.name != "bias")
_MAY_BE_ZERO = frozenset({"padding_height", "padding_width"})
_PASSES = {operation.value: operation for operation in Pass}


class FailureKind(StrEnum):
    """Why a piece of work gave no timing; out of memory is a result."""

    OUT_OF_MEMORY = "out_of_memory"
    UNTRAINABLE = "untrainable"
    UNSUPPORTED = "unsupported"
    FATAL = "fatal"
    FAILED = "failed"


class StoppedBy(StrEnum):
    """What ended a run of the probe."""

    END_OF_PLAN = "end_of_plan"
    TIME_BUDGET = "time_budget"
    SIGNAL = "signal"
    FATAL_ERROR = "fatal_error"


@dataclass(frozen=True, slots=True)
class EnvironmentLine:
    """What the following timings were taken on and with; ``record`` is the line as printed.

    ``gpu_name`` is ``None`` where a CPU was measured; ``cpu_memory_mib`` is ``None`` if unknown.
    """

    line_number: int
    run_id: uuid.UUID
    started_at: datetime
    machine: str
    stack: StackSpec
    cpu_model: str
    cpu_signature: str
    cpu_memory_mib: float | None
    gpu_name: str | None
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ConvolutionLine:
    """Samples in milliseconds of each timed pass of one layer at one batch size."""

    line_number: int
    layer: ConvolutionSpec
    batch_size: int
    round: int
    samples_ms: dict[Pass, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class IterationLine:
    """Samples in milliseconds of one network's whole training iteration at one batch size."""

    line_number: int
    architecture: str
    image_size: int
    auxiliary_heads: bool
    optimizer: Optimizer
    batch_size: int
    round: int
    samples_ms: tuple[float, ...]
    peak_memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """Work that gave no timing: ``layer`` is set for a convolution, else ``architecture``."""

    line_number: int
    kind: FailureKind
    message: str
    batch_size: int
    round: int
    layer: ConvolutionSpec | None = None
    architecture: str = ""
    image_size: int = 0


@dataclass(frozen=True, slots=True)
class DoneLine:
    """The end of a run; ``record`` is the line as printed."""

    line_number: int
    completed: int
    failed: int
    left: int
    stopped_by: StoppedBy
    record: dict[str, Any]


TimingLine = ConvolutionLine | IterationLine | ErrorLine
ResultLine = EnvironmentLine | TimingLine | DoneLine


def parse_results(lines: Iterable[bytes]) -> Iterator[ResultLine]:
    """The records of a whole file, line by line with their ends of line.

    Raises
    ------
    ResultError
        On the first line that is wrong, that is cut off, or that stands before an environment
        line or after the end of its run; at the end if there was no line at all.
    """
    in_run = False
    number = 0
    for number, line in enumerate(lines, start=1):
        record = _parse_whole_line(line, number)
        if isinstance(record, EnvironmentLine):
            in_run = True
        elif not in_run:
            raise ResultError(number, "comes before an environment line")
        elif isinstance(record, DoneLine):
            in_run = False
        yield record
    if number == 0:
        raise ResultError(1, "the file is empty; a results file starts with an environment line")


def _parse_whole_line(line: bytes, number: int) -> ResultLine:
    try:
        return parse_line(line, number)
    except ResultError:
        if line.endswith(b"\n"):
            raise
        raise ResultError(number, "is cut off, the file is truncated") from None


def split_complete_lines(data: bytes) -> tuple[list[bytes], int]:
    """The lines of ``data`` that are complete, and how many bytes they take.

    The bytes after the last end of line are a line that is still being written.
    Raises ``ResultError`` when that one is already longer than any line may be.
    """
    end = data.rfind(b"\n") + 1
    if len(data) - end > MAXIMUM_LINE_BYTES:
        lines_before = data.count(b"\n", 0, end)
        raise ResultError(lines_before + 1, _too_long())
    return data[:end].splitlines(keepends=True) if end else [], end


def parse_line(line: bytes, number: int = 1) -> ResultLine:
    """The record of one line; raises ``ResultError`` with ``number`` and a reason."""
    if len(line) > MAXIMUM_LINE_BYTES:
        raise ResultError(number, _too_long())
    try:
        document = json.loads(line.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise ResultError(number, "is not UTF-8 text") from None
    except _NotFinite as error:
        raise ResultError(number, f"holds {error}; every number must be finite") from None
    except (ValueError, RecursionError):
        raise ResultError(number, "is not a JSON object") from None
    if not isinstance(document, dict):
        raise ResultError(number, "is not a JSON object")
    line_type = document.get("type")
    reader = _READERS.get(line_type) if isinstance(line_type, str) else None
    if reader is None:
        allowed = ", ".join(_READERS)
        raise ResultError(number, f"has type {shown(line_type)}; allowed are {allowed}")
    return reader(CheckedFields(document, number))


def _too_long() -> str:
    return f"is longer than {MAXIMUM_LINE_BYTES:,} bytes"


class _NotFinite(ValueError):
    """A constant such as NaN, which JSON does not have but Python's reader accepts."""


def _refuse_constant(name: str) -> float:
    raise _NotFinite(name)


def _read_environment(line: CheckedFields) -> EnvironmentLine:
    schema = line.values.get("schema")
    if schema != SCHEMA or isinstance(schema, bool):
        raise line.refuse(f"has schema {shown(schema)}; this version reads schema {SCHEMA}")
    try:
        run_id = uuid.UUID(line.text("run_id", 36))
    except ValueError:
        raise line.refuse("run_id must be a UUID") from None
    started_at = _read_time(line, "started_at")
    line.check_storable("the environment", line.values)
    cpu = line.nested("cpu")
    memory_mib = cpu.values.get("memory_mib")
    gpu_name = None
    if line.values.get("gpu") is not None:
        gpu_name = line.nested("gpu").text("name", 120)
    return EnvironmentLine(
        line_number=line.number,
        run_id=run_id,
        started_at=started_at,
        machine=line.text("machine", 80, required=False),
        stack=_read_stack(line.nested("stack")),
        cpu_model=cpu.text("model", 120),
        cpu_signature=cpu.text("signature", 40),
        cpu_memory_mib=None if memory_mib is None else cpu.integer("memory_mib", 1, 10**9),
        gpu_name=gpu_name,
        record=line.values,
    )


def _read_time(line: CheckedFields, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(line.text(name, 40))
    except ValueError:
        raise line.refuse(f"{name} must be an ISO date and time") from None
    if moment.tzinfo is None:
        raise line.refuse(f"{name} lacks its offset from UTC")
    return moment


def _read_stack(stack: CheckedFields) -> StackSpec:
    memory_format = stack.text("memory_format", 20)
    if memory_format not in ("contiguous", "channels_last"):
        raise stack.refuse(
            f"memory_format is {shown(memory_format)}; allowed are contiguous, channels_last"
        )
    version = stack.text("framework_version", 20)
    if not version:
        raise stack.refuse("framework_version is empty")
    return StackSpec(
        engine=stack.choice("engine", Engine),
        framework_version=version,
        precision=stack.choice("precision", Precision),
        cuda_version=stack.text("cuda_version", 20),
        cudnn_version=stack.text("cudnn_version", 20),
        memory_format=memory_format,
        cudnn_benchmark=stack.boolean("cudnn_benchmark"),
        threads=stack.integer("threads", 1, 100_000),
    )


def read_layer(line: CheckedFields) -> ConvolutionSpec:
    """The layer of a line; raises ``ResultError`` for one that cannot be."""
    columns = line.nested("layer")
    unknown = columns.values.keys() - {*_LAYER_SIZES, "bias"}
    if unknown:
        raise line.refuse(f"layer has an unknown value {shown(min(unknown))}")
    sizes = {
        name: columns.integer(name, 0 if name in _MAY_BE_ZERO else 1, MAXIMUM_EXTENT)
        for name in _LAYER_SIZES
    }
    layer = ConvolutionSpec(**sizes, bias=columns.boolean("bias"))
    if layer.in_channels % layer.groups or layer.out_channels % layer.groups:
        raise line.refuse(f"layer {layer.key} is impossible: its groups do not divide its channels")
    if layer.out_height < 1 or layer.out_width < 1:
        raise line.refuse(f"layer {layer.key} is impossible: its kernel does not fit its input")
    return layer


def _read_convolution(line: CheckedFields) -> ConvolutionLine:
    passes = line.nested("samples_ms").values
    if not passes:
        raise line.refuse("samples_ms holds no pass")
    samples: dict[Pass, tuple[float, ...]] = {}
    for name, values in passes.items():
        if name not in _PASSES:
            allowed = ", ".join(_PASSES)
            raise line.refuse(f"samples_ms holds {shown(name)}; allowed are {allowed}")
        samples[_PASSES[name]] = line.checked_samples(name, values)
    return ConvolutionLine(
        line_number=line.number,
        layer=read_layer(line),
        batch_size=line.integer("batch_size", 1, MAXIMUM_BATCH_SIZE),
        round=line.integer("round", 1, MAXIMUM_ROUND),
        samples_ms=samples,
    )


def _read_iteration(line: CheckedFields) -> IterationLine:
    peak = line.values.get("peak_memory_bytes")
    return IterationLine(
        line_number=line.number,
        architecture=line.slug("architecture"),
        image_size=line.integer("image_size", 1, MAXIMUM_EXTENT),
        auxiliary_heads=line.boolean("auxiliary_heads"),
        optimizer=line.choice("optimizer", Optimizer),
        batch_size=line.integer("batch_size", 1, MAXIMUM_BATCH_SIZE),
        round=line.integer("round", 1, MAXIMUM_ROUND),
        samples_ms=line.samples("samples_ms"),
        peak_memory_bytes=(None if peak is None else line.integer("peak_memory_bytes", 0, 10**15)),
    )


def _read_error(line: CheckedFields) -> ErrorLine:
    work = line.nested("work")
    kind = line.choice("error", FailureKind)
    message = line.values.get("message")
    if not isinstance(message, str):
        raise line.refuse("message must be a text")
    of_convolution = work.values.get("kind") == "convolution"
    if not of_convolution and work.values.get("kind") != "iteration":
        raise line.refuse(
            f"work is of kind {shown(work.values.get('kind'))}; allowed are convolution, iteration"
        )
    return ErrorLine(
        line_number=line.number,
        kind=kind,
        message=without_unstorable(message)[:MAXIMUM_MESSAGE_CHARACTERS],
        batch_size=work.integer("batch_size", 1, MAXIMUM_BATCH_SIZE),
        round=work.integer("round", 1, MAXIMUM_ROUND),
        layer=read_layer(work) if of_convolution else None,
        architecture="" if of_convolution else work.slug("architecture"),
        image_size=0 if of_convolution else work.integer("image_size", 1, MAXIMUM_EXTENT),
    )


def _read_done(line: CheckedFields) -> DoneLine:
    line.check_storable("the end of the run", line.values)
    return DoneLine(
        line_number=line.number,
        completed=line.integer("completed", 0, 10**9),
        failed=line.integer("failed", 0, 10**9),
        left=line.integer("left", 0, 10**9),
        stopped_by=line.choice("stopped_by", StoppedBy),
        record=line.values,
    )


_READERS: dict[str, Callable[[CheckedFields], ResultLine]] = {
    "environment": _read_environment,
    "convolution": _read_convolution,
    "iteration": _read_iteration,
    "error": _read_error,
    "done": _read_done,
}
