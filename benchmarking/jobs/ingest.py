"""Storing what a probe printed: atomic, idempotent, and only for the machine it was taken on.

Measurements are append-only: a line that is stored already is skipped and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from benchmarking.auxiliary_heads import has_auxiliary_heads
from benchmarking.jobs.provenance import ProvenanceError, check_provenance, find_machine, pin_cpu
from benchmarking.models import (
    Architecture,
    BenchmarkJob,
    ConvolutionLayer,
    FailedTiming,
    IterationTiming,
    LayerTiming,
    Machine,
    MeasurementRun,
    SoftwareStack,
)
from benchmarking.probe.results import (
    ConvolutionLine,
    DoneLine,
    EnvironmentLine,
    ErrorLine,
    IterationLine,
    ResultLine,
    TimingLine,
)
from benchmarking.signals import timings_stored
from benchmarking.specs import ConvolutionSpec, StackSpec, summarize_samples
from benchmarking.suggestions import did_you_mean

ROWS_PER_INSERT = 2000


class IngestError(ValueError):
    """These results cannot be stored; the message is one sentence that names the line."""


@dataclass(slots=True)
class StoredCounts:
    """How many rows an import made; ``duplicates`` were there already.

    A convolution line makes a row for each of its passes.
    """

    runs: int = 0
    layer_timings: int = 0
    iteration_timings: int = 0
    failures: int = 0
    duplicates: int = 0
    machines: set[str] = field(default_factory=set)

    @property
    def timings(self) -> int:
        """New timings of either kind."""
        return self.layer_timings + self.iteration_timings

    def add(self, other: StoredCounts) -> None:
        """Add the counts of another import to these."""
        self.runs += other.runs
        self.layer_timings += other.layer_timings
        self.iteration_timings += other.iteration_timings
        self.failures += other.failures
        self.duplicates += other.duplicates
        self.machines |= other.machines


def store_results(records: Sequence[ResultLine], *, machine: Machine | None = None) -> StoredCounts:
    """Store all runs of ``records`` or nothing; each must begin with its environment line.

    Parameters
    ----------
    records
        Parsed lines in their order, of one or more runs.
    machine
        Where the timings were taken; without it each environment line must name it.

    Raises
    ------
    IngestError, ProvenanceError
        If an architecture is unknown here, a run gives one timing twice with other samples, or
        the timings are not of this machine.
    """
    counts = StoredCounts()
    with transaction.atomic():
        for environment, lines in _split_runs(records):
            _refuse_contradictions(lines)
            if not (machine or environment.machine):
                raise ProvenanceError("the results name no machine; say which with --machine")
            target = machine or find_machine(environment.machine)
            run, is_new = open_run(environment, machine=target)
            counts.runs += is_new
            counts.add(store_lines(lines, run=run))
    return counts


def _split_runs(
    records: Iterable[ResultLine],
) -> Iterable[tuple[EnvironmentLine, list[TimingLine | DoneLine]]]:
    environment: EnvironmentLine | None = None
    lines: list[TimingLine | DoneLine] = []
    for record in records:
        if isinstance(record, EnvironmentLine):
            if environment is not None:
                yield environment, lines
            environment, lines = record, []
        else:
            lines.append(record)
    if environment is not None:
        yield environment, lines


def _refuse_contradictions(lines: Iterable[TimingLine | DoneLine]) -> None:
    first_of: dict[tuple[Any, ...], tuple[int, tuple[float, ...]]] = {}
    for line in lines:
        for key, samples_ms in _samples_by_key(line):
            first_line, first_samples = first_of.setdefault(key, (line.line_number, samples_ms))
            if first_samples != samples_ms:
                raise IngestError(
                    f"line {line.line_number}: gives the timing of line {first_line} again, "
                    "with other samples"
                )


def _samples_by_key(
    line: TimingLine | DoneLine,
) -> Iterator[tuple[tuple[Any, ...], tuple[float, ...]]]:
    if isinstance(line, ConvolutionLine):
        for operation, samples_ms in line.samples_ms.items():
            yield (line.layer, line.batch_size, line.round, operation), samples_ms
    elif isinstance(line, IterationLine):
        network = (line.architecture, line.image_size)
        yield (network, line.batch_size, line.round, line.optimizer), line.samples_ms


def open_run(
    environment: EnvironmentLine, *, machine: Machine, job: BenchmarkJob | None = None
) -> tuple[MeasurementRun, bool]:
    """The run of an environment line and whether it is new; pins the CPU of ``machine``.

    Raises ``ProvenanceError`` if the run cannot be one of ``machine``, and ``IngestError`` if it
    was stored for another machine.
    """
    check_provenance(machine, environment)
    stored = MeasurementRun.objects.select_related("machine").filter(pk=environment.run_id).first()
    if stored is not None:
        if stored.machine_id != machine.pk:
            raise IngestError(
                f"line {environment.line_number}: run {environment.run_id} "
                f"is stored as one of {stored.machine}, it cannot be one of {machine} too"
            )
        return stored, False
    pin_cpu(machine.device, environment)
    run = MeasurementRun.objects.create(
        pk=environment.run_id,
        machine=machine,
        stack=find_or_create_stack(environment.stack),
        job=job,
        started_at=environment.started_at,
        environment=environment.record,
    )
    return run, True


def find_or_create_stack(spec: StackSpec) -> SoftwareStack:
    """The row of a software stack."""
    values = {name: getattr(spec, name) for name in SoftwareStack.SPEC_FIELDS}
    stack, _ = SoftwareStack.objects.get_or_create(
        **{**values, "engine": spec.engine.value, "precision": spec.precision.value}
    )
    return stack


def store_lines(lines: Sequence[TimingLine | DoneLine], *, run: MeasurementRun) -> StoredCounts:
    """Store timings and failures of one run in one transaction; duplicates are skipped.

    Sends ``timings_stored`` once the surrounding transaction is committed, if a timing is new.
    Raises ``IngestError`` for an architecture or image size that is not known here.
    """
    with transaction.atomic():
        layers = _find_or_create_layers(lines)
        architectures = _find_architectures(lines)
        counts = StoredCounts(machines={run.machine.slug})
        counts.layer_timings, layer_duplicates = _insert(
            LayerTiming.objects.filter(run=run), _layer_timings(lines, run, layers)
        )
        counts.iteration_timings, iteration_duplicates = _insert(
            IterationTiming.objects.filter(run=run), _iteration_timings(lines, run, architectures)
        )
        counts.failures, failure_duplicates = _insert(
            FailedTiming.objects.filter(run=run), _failures(lines, run, layers, architectures)
        )
        counts.duplicates = layer_duplicates + iteration_duplicates + failure_duplicates
        for line in lines:
            if isinstance(line, DoneLine):
                run.completion = line.record
                run.save(update_fields=["completion"])
        if counts.timings:
            machine_id = run.machine_id
            transaction.on_commit(
                lambda: timings_stored.send_robust(sender=MeasurementRun, machine_id=machine_id)
            )
    return counts


def _insert(stored: QuerySet, rows: list) -> tuple[int, int]:
    """Insert what is not among ``stored`` yet; return how many were new and how many were not."""
    if not rows:
        return 0, 0
    before = stored.count()
    stored.model._default_manager.bulk_create(
        rows, batch_size=ROWS_PER_INSERT, ignore_conflicts=True
    )
    new = stored.count() - before
    return new, len(rows) - new


def _find_or_create_layers(
    lines: Iterable[TimingLine | DoneLine],
) -> dict[ConvolutionSpec, ConvolutionLayer]:
    wanted: dict[str, ConvolutionSpec] = {}
    for line in lines:
        if isinstance(line, ConvolutionLine | ErrorLine) and line.layer is not None:
            wanted[line.layer.key] = line.layer
    found = _layers_by_key(wanted)
    missing = [spec for key, spec in wanted.items() if key not in found]
    if missing:
        ConvolutionLayer.objects.bulk_create(
            [ConvolutionLayer.from_spec(spec) for spec in missing], ignore_conflicts=True
        )
        found |= _layers_by_key(spec.key for spec in missing)
    return {spec: found[key] for key, spec in wanted.items()}


def _layers_by_key(keys: Iterable[str]) -> dict[str, ConvolutionLayer]:
    return {layer.key: layer for layer in ConvolutionLayer.objects.filter(key__in=list(keys))}


def _find_architectures(
    lines: Iterable[TimingLine | DoneLine],
) -> dict[tuple[str, int], Architecture]:
    wanted = [
        line
        for line in lines
        if isinstance(line, IterationLine) or (isinstance(line, ErrorLine) and line.architecture)
    ]
    if not wanted:
        return {}
    slugs = {line.architecture for line in wanted}
    found = {
        (architecture.slug, architecture.image_size): architecture
        for architecture in Architecture.objects.filter(slug__in=slugs)
    }
    for line in wanted:
        architecture = found.get((line.architecture, line.image_size))
        if architecture is None:
            raise IngestError(_unknown_architecture(line, found))
        if isinstance(line, IterationLine):
            _check_auxiliary_heads(line, architecture)
    return found


def _unknown_architecture(line: IterationLine | ErrorLine, found: Iterable[tuple[str, int]]) -> str:
    sizes = sorted(size for slug, size in found if slug == line.architecture)
    if sizes:
        known_sizes = ", ".join(str(size) for size in sizes)
        return (
            f"line {line.line_number}: {line.architecture} is not known at "
            f"{line.image_size} px; known are {known_sizes} px"
        )
    known = Architecture.objects.public().values_list("slug", flat=True).distinct()
    return (
        f"line {line.line_number}: unknown architecture {line.architecture!r}"
        f"{did_you_mean(line.architecture, known)}"
    )


def _check_auxiliary_heads(line: IterationLine, architecture: Architecture) -> None:
    traced_with_heads = has_auxiliary_heads(architecture)
    if line.auxiliary_heads != traced_with_heads:
        with_or_without = {True: "with", False: "without"}
        raise IngestError(
            f"line {line.line_number}: {architecture} is known "
            f"{with_or_without[traced_with_heads]} auxiliary heads, this iteration was timed "
            f"{with_or_without[line.auxiliary_heads]} them"
        )


def _layer_timings(
    lines: Iterable[TimingLine | DoneLine],
    run: MeasurementRun,
    layers: dict[ConvolutionSpec, ConvolutionLayer],
) -> list[LayerTiming]:
    return [
        LayerTiming(
            run=run,
            layer=layers[line.layer],
            batch_size=line.batch_size,
            operation=operation.value,
            round=line.round,
            samples_ms=list(samples_ms),
            milliseconds=summarize_samples(samples_ms),
        )
        for line in lines
        if isinstance(line, ConvolutionLine)
        for operation, samples_ms in line.samples_ms.items()
    ]


def _iteration_timings(
    lines: Iterable[TimingLine | DoneLine],
    run: MeasurementRun,
    architectures: dict[tuple[str, int], Architecture],
) -> list[IterationTiming]:
    return [
        IterationTiming(
            run=run,
            architecture=architectures[line.architecture, line.image_size],
            batch_size=line.batch_size,
            optimizer=line.optimizer.value,
            round=line.round,
            samples_ms=list(line.samples_ms),
            milliseconds=summarize_samples(line.samples_ms),
            peak_memory_bytes=line.peak_memory_bytes,
        )
        for line in lines
        if isinstance(line, IterationLine)
    ]


def _failures(
    lines: Iterable[TimingLine | DoneLine],
    run: MeasurementRun,
    layers: dict[ConvolutionSpec, ConvolutionLayer],
    architectures: dict[tuple[str, int], Architecture],
) -> list[FailedTiming]:
    return [
        FailedTiming(
            run=run,
            layer=layers[line.layer] if line.layer is not None else None,
            architecture=(
                architectures[line.architecture, line.image_size] if line.layer is None else None
            ),
            batch_size=line.batch_size,
            round=line.round,
            kind=line.kind.value,
            message=line.message,
        )
        for line in lines
        if isinstance(line, ErrorLine)
    ]
