"""From a probe's growing output to stored timings: each line once, whoever fetches it."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db import transaction
from django.db.models import F

from benchmarking.jobs.deadlines import PROGRESS_LIMIT
from benchmarking.jobs.ingest import IngestError, open_run, store_lines
from benchmarking.jobs.lifecycle import State
from benchmarking.jobs.provenance import ProvenanceError
from benchmarking.jobs.reasons import Reason
from benchmarking.jobs.step import StaleLeaseError, Step
from benchmarking.models import MeasurementRun
from benchmarking.probe.results import (
    ConvolutionLine,
    DoneLine,
    EnvironmentLine,
    ErrorLine,
    IterationLine,
    ResultError,
    ResultLine,
    StoppedBy,
    TimingLine,
    parse_line,
    split_complete_lines,
)

# A few thousand lines: stored in seconds, well within a lease.
FETCH_BYTES = 2 * 2**20
# A piece of work gives a line or two; a probe that prints far more than that does so for ever.
MOST_SPARE_LINES = 1000


class CollectionError(Exception):
    """What the probe printed cannot be stored."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def collect_lines(step: Step) -> int:
    """Store the next lines of the job's output; return how many bytes these were.

    How far the output is stored moves in the same transaction as its timings, so that no line is
    lost or stored twice when a worker dies, and only under the lease of ``step``.

    Raises
    ------
    CollectionError
        On a line that is wrong, after the lines before it are stored; and on lines that are not
        of the job's machine, of which none is stored.
    StaleLeaseError
        If somebody else has the job now; nothing is stored.
    """
    data = step.host.fetch(step.host_job, step.job.ingested_bytes, FETCH_BYTES)
    first_number = _lines_so_far(step) + 1
    fault: ResultError | None = None
    try:
        lines, _ = split_complete_lines(data)
    except ResultError as error:
        lines = data.splitlines(keepends=True)[:-1]
        fault = ResultError(first_number + len(lines), error.reason)
    records: list[ResultLine] = []
    stored_bytes = 0
    for number, line in enumerate(lines, start=first_number):
        try:
            records.append(parse_line(line, number))
        except ResultError as error:
            fault = error
            break
        stored_bytes += len(line)
    if records:
        try:
            _store(step, records, stored_bytes)
        except IngestError as error:
            raise CollectionError(Reason.BAD_OUTPUT, str(error)) from error
        except ProvenanceError as error:
            raise CollectionError(Reason.WRONG_MACHINE, str(error)) from error
    if fault is not None:
        raise CollectionError(Reason.BAD_OUTPUT, str(fault)) from fault
    if (line_count := _lines_so_far(step)) > MOST_SPARE_LINES + 3 * step.job.planned_count:
        raise CollectionError(
            Reason.BAD_OUTPUT,
            f"line {line_count}: it prints more than the plan asks for, which is "
            f"{step.job.planned_count} pieces of work",
        )
    return stored_bytes


def completion_of(step: Step) -> StoppedBy | None:
    """What ended the probe by its own account, ``None`` if it did not come to say so."""
    run = _current_run(step)
    if run is None or run.completion is None:
        return None
    return StoppedBy(run.completion["stopped_by"])


def _lines_so_far(step: Step) -> int:
    environment_lines = 1 if "run_id" in step.host_job.state else 0
    return environment_lines + step.job.stored_count + step.job.failed_count


def _current_run(step: Step) -> MeasurementRun | None:
    run_id = step.host_job.state.get("run_id")
    if run_id is None:
        return None
    return MeasurementRun.objects.select_related("machine").get(pk=uuid.UUID(run_id))


def _store(step: Step, records: list[ResultLine], stored_bytes: int) -> None:
    job = step.job
    state_before = dict(step.host_job.state)
    timings = sum(isinstance(record, ConvolutionLine | IterationLine) for record in records)
    failures = sum(isinstance(record, ErrorLine) for record in records)
    try:
        with transaction.atomic():
            run, lines = _run_and_its_lines(step, records)
            # First the guard, then the rows: a stale worker gets no further than this.
            guarded = step.rows().filter(ingested_bytes=job.ingested_bytes)
            moved = guarded.update(
                ingested_bytes=F("ingested_bytes") + stored_bytes,
                stored_count=F("stored_count") + timings,
                failed_count=F("failed_count") + failures,
                current_work=_describe_last(records) or job.current_work,
                host_state=step.host_job.state,
                **_moved_deadline(step),
            )
            if moved != 1:
                raise StaleLeaseError
            store_lines(lines, run=run)
    except BaseException:
        step.host_job.state.clear()
        step.host_job.state.update(state_before)
        raise
    job.ingested_bytes += stored_bytes
    job.stored_count += timings
    job.failed_count += failures


def _moved_deadline(step: Step) -> dict[str, datetime]:
    """While the probe runs each line gives it time for the next; elsewhere lines give none."""
    if step.job.state != State.RUNNING:
        return {}
    return {"state_deadline": step.now + PROGRESS_LIMIT}


def _run_and_its_lines(
    step: Step, records: list[ResultLine]
) -> tuple[MeasurementRun, list[TimingLine | DoneLine]]:
    """The job's run, made of the first line that was ever printed, and what belongs to it."""
    run = _current_run(step)
    if run is None:
        environment, *records = records
        if not isinstance(environment, EnvironmentLine):
            raise IngestError("line 1: comes before an environment line")
        run, _ = open_run(environment, machine=step.job.machine, job=step.job)
        step.host_job.state["run_id"] = str(run.pk)
    lines: list[TimingLine | DoneLine] = []
    for record in records:
        if isinstance(record, EnvironmentLine):
            raise IngestError(f"line {record.line_number}: begins a second run")
        lines.append(record)
    return run, lines


def _describe_last(records: list[ResultLine]) -> str:
    for record in reversed(records):
        if isinstance(record, ConvolutionLine):
            return f"{record.layer.key} x {record.batch_size}"
        if isinstance(record, IterationLine):
            return f"{record.architecture} x {record.batch_size}"
    return ""
