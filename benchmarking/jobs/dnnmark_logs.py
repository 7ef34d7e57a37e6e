"""A recorded DNNMark log as the records of a run, for the machine and the layers that it is of."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarking.jobs.provenance import ProvenanceError, find_machine
from benchmarking.models import ConvolutionLayer, Device, Machine
from benchmarking.probe.checked_fields import ResultError, shown, without_unstorable
from benchmarking.probe.dnnmark.config import FORK, SEARCH, UPSTREAM
from benchmarking.probe.dnnmark.layer_names import (
    LayerNameError,
    batch_size_of_file_name,
    layer_of_configuration,
    layer_of_file_name,
    layer_of_heading,
)
from benchmarking.probe.dnnmark.log import (
    MAXIMUM_BATCH_SIZE,
    PASSES,
    BatchTimes,
    LogError,
    LogParser,
    Section,
    is_batch_size,
)
from benchmarking.probe.dnnmark.tree import cudnn_number
from benchmarking.probe.probe import classify_error
from benchmarking.probe.results import (
    SCHEMA,
    ConvolutionLine,
    EnvironmentLine,
    ErrorLine,
    FailureKind,
    ResultLine,
    parse_line,
)
from benchmarking.specs import ConvolutionSpec, Engine, Pass, StackSpec

# Runs of logs get their ids from what is in them, so that one log is one run wherever it lies.
_LOGS = uuid.UUID("6f1b2c1e-6f0f-4bb1-8f4e-0d2d8f4b7a55")


@dataclass(frozen=True, slots=True)
class LogHints:
    """What whoever imports a log says about it; each may be in the log as well."""

    machine: Machine | None = None
    layer: ConvolutionSpec | None = None
    batch_size: int | None = None


def read_dnnmark_log(path: Path, lines: Iterable[bytes], hints: LogHints) -> list[ResultLine]:
    """The records of a log, begun by an environment line for each of its runs.

    A layer without a bias stands for the known layers of its shape, with a bias and without:
    DNNMark leaves it out in any case.

    Raises
    ------
    ResultError
        If the log is damaged or holds nothing, or nobody says which layer or batch size it is of.
    ProvenanceError
        If nobody says which machine it is of, or there is no such machine.
    """
    digest = hashlib.sha256()
    parser = LogParser(hints.batch_size or batch_size_of_file_name(path.name))
    try:
        for line in lines:
            digest.update(line)
            parser.feed(line)
        sections = parser.finish()
    except LogError as error:
        raise ResultError(error.line_number, error.reason) from None
    if not sections:
        raise ResultError(
            1,
            "the file holds no times of DNNMark; allowed are its logs, and files of the probe "
            "that end in .jsonl or .jsonl.gz",
        )
    recorded_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    run_id = uuid.uuid5(_LOGS, digest.hexdigest())
    records: list[ResultLine] = []
    heading: str | None = None
    for section in sections:
        if heading != section.headers.get("environment", ""):
            heading = section.headers.get("environment", "")
            records.append(
                _recorded_environment(section, heading)
                if heading
                else _environment_of_log(section, hints, run_id, recorded_at, path.name)
            )
        records += _records_of(section, _layer_of(section, hints, path.name))
    return records


def _recorded_environment(section: Section, heading: str) -> EnvironmentLine:
    try:
        record = parse_line(heading.encode(), section.line_number)
    except ResultError as error:
        raise ResultError(
            section.line_number, f"its environment is wrong: {error.reason}"
        ) from None
    if not isinstance(record, EnvironmentLine) or record.stack.engine is not Engine.DNNMARK:
        raise ResultError(section.line_number, "its environment is not one of DNNMark")
    return record


def _environment_of_log(
    section: Section, hints: LogHints, run_id: uuid.UUID, recorded_at: datetime, file_name: str
) -> EnvironmentLine:
    """What a log that others recorded tells, and what it leaves to the machine that it is of."""
    headers = section.headers
    machine = hints.machine
    if machine is None:
        if not headers.get("machine"):
            raise ProvenanceError("the log names no machine; say which with --machine")
        machine = find_machine(headers["machine"])
    if machine.device.kind == Device.Kind.CPU:
        raise ProvenanceError(f"DNNMark measures GPUs; {machine} is measured on its CPU")
    cuda = ".".join(headers.get("cuda", "").split(".")[:2])
    stack = StackSpec(
        engine=Engine.DNNMARK,
        framework_version=FORK if section.is_fork else UPSTREAM,
        # What cuDNN does unasked: TF32 where the device has it. Our own runs switch that off.
        precision=machine.device.to_spec().default_precision,
        cuda_version=cuda[:20],
        cudnn_version=cudnn_number(headers.get("cudnn", "")),
        cudnn_benchmark=section.configured.get("algofwd") == SEARCH,
    )
    gpu_name = headers.get("gpu") or _reported_name(machine.device)
    record: dict[str, Any] = {
        "type": "environment",
        "schema": SCHEMA,
        "run_id": str(run_id),
        "started_at": recorded_at.isoformat(),
        "machine": machine.slug,
        "stack": {**asdict(stack)},
        "log": {
            "file": without_unstorable(file_name),
            "gpu_named_by": "log" if headers.get("gpu") else "whoever imported it",
            "headings": dict(headers),
        },
        "cpu": None,
        "gpu": {"name": gpu_name, "driver": headers.get("driver", "")},
    }
    return EnvironmentLine(
        line_number=section.line_number,
        run_id=run_id,
        started_at=recorded_at,
        machine=machine.slug,
        stack=stack,
        cpu_model="",
        cpu_signature="",
        cpu_memory_mib=None,
        gpu_name=gpu_name,
        record=json.loads(json.dumps(record)),
    )


def _reported_name(device: Device) -> str:
    first = device.reported_name.split("|")[0].strip()
    return first.replace("*", "") or device.name


def _layer_of(section: Section, hints: LogHints, file_name: str) -> ConvolutionSpec:
    told: ConvolutionSpec | None
    try:
        if "layer" in section.headers:
            told = layer_of_heading(section.headers["layer"])
        else:
            configured = layer_of_configuration(section.configured)
            told = configured or hints.layer or layer_of_file_name(file_name)
    except LayerNameError as error:
        raise ResultError(section.line_number, str(error)) from None
    if told is None:
        raise ResultError(
            section.line_number, "nothing says which layer is timed; say --layer H-W-C-K-S-P-U"
        )
    if hints.layer is not None and _without_bias(told) != _without_bias(hints.layer):
        raise ResultError(
            section.line_number, f"is of layer {told.key}, and not of {hints.layer.key}"
        )
    if told.groups > 1 or told.dilation_height > 1 or told.dilation_width > 1:
        raise ResultError(section.line_number, f"DNNMark cannot have timed layer {told.key}")
    return told


def _without_bias(layer: ConvolutionSpec) -> tuple[object, ...]:
    return tuple(value for name, value in asdict(layer).items() if name != "bias")


def _records_of(section: Section, layer: ConvolutionSpec) -> Iterator[ResultLine]:
    is_exact = section.headers.get("layer", "").startswith("{")
    layers = [layer] if is_exact else _known_layers(layer)
    round_text = section.headers.get("round", "1")
    if not re.fullmatch(r"\d{1,5}", round_text) or not 1 <= int(round_text) <= 10_000:
        raise ResultError(section.line_number, f"has round {round_text[:20]!r}")
    for batch in section.batches:
        samples_ms = _samples_of(batch)
        for each in layers:
            yield ConvolutionLine(
                line_number=batch.line_number,
                layer=each,
                batch_size=_batch_size_of(batch, section),
                round=int(round_text),
                samples_ms=samples_ms,
            )
    failed_sizes: set[int] = set()
    for failure in section.failures:
        size = failure.batch_size or _first_without_time(section)
        if size is None:
            raise ResultError(
                failure.line_number,
                f"nothing says at which batch size this failed ({failure.message}); "
                "say --batch-size N",
            )
        if size in failed_sizes:
            continue
        failed_sizes.add(size)
        kind = FailureKind(classify_error(RuntimeError(failure.message)))
        for each in layers:
            yield ErrorLine(
                line_number=failure.line_number,
                kind=kind,
                message=failure.message[:300],
                batch_size=size,
                round=int(round_text),
                layer=each,
            )


def _known_layers(layer: ConvolutionSpec) -> list[ConvolutionSpec]:
    shape = {name: value for name, value in asdict(layer).items() if name != "bias"}
    known = [row.to_spec() for row in ConvolutionLayer.objects.filter(**shape).order_by("bias")]
    return known or [layer]


def _samples_of(batch: BatchTimes) -> dict[Pass, tuple[float, ...]]:
    return {
        Pass(name): tuple(batch.samples_ms[name])
        for name in PASSES.values()
        if name in batch.samples_ms
    }


def _batch_size_of(batch: BatchTimes, section: Section) -> int:
    if batch.batch_size is not None:
        return batch.batch_size
    sizes = _listed_sizes(section)
    if len(sizes) == 1:
        return sizes[0]
    raise ResultError(
        batch.line_number, "nothing says which batch size is timed; say --batch-size N"
    )


def _listed_sizes(section: Section) -> list[int]:
    """The batch sizes that the program was told to time, ascending as it takes them."""
    text = section.headers.get("batch_sizes") or section.configured.get("n", "")
    parts = [part.strip() for part in text.split(",") if part.strip()]
    wrong = next((part for part in parts if not is_batch_size(part)), None)
    if wrong is not None:
        raise ResultError(
            section.line_number,
            f"lists batch size {shown(wrong)}; allowed are whole numbers from 1 to "
            f"{MAXIMUM_BATCH_SIZE}",
        )
    return [int(part) for part in parts]


def _first_without_time(section: Section) -> int | None:
    timed = {batch.batch_size for batch in section.batches}
    return next((size for size in _listed_sizes(section) if size not in timed), None)
