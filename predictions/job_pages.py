"""What the pages of benchmark jobs show: reads, with the words already chosen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.utils import timezone

from benchmarking.jobs.budget import job_cost_usd
from benchmarking.jobs.explanations import explain_state
from benchmarking.jobs.lifecycle import State
from benchmarking.jobs.reasons import Reason
from benchmarking.jobs.retry import agreed_usd
from benchmarking.models import Architecture, BenchmarkJob, JobEvent, Machine
from benchmarking.progress import seconds_left
from predictions.display import format_duration, format_exact_usd

JOBS_ON_A_PAGE = 50
EVENTS_ON_A_PAGE = 25
POLL_SECONDS = 5
LONGEST_SUMMARY = 300


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job in the list."""

    job: BenchmarkJob
    reason: str
    cost_text: str


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job is; each text changes only when there is something new to read.

    ``last_event`` is the newest event's id, 0 where there is none; ``retry_text`` is what a retry
    may cost, empty where nothing is paid.
    """

    job: BenchmarkJob
    done: int
    percent: int
    time_left: str
    cost_text: str
    maximum_text: str
    last_event: int
    retried_by: UUID | None
    retry_text: str

    @property
    def is_over(self) -> bool:
        """Whether nothing will change any more."""
        return self.job.is_final

    @property
    def is_paid(self) -> bool:
        """Whether the job rents its machine."""
        return is_paid(self.job)

    @property
    def explanation(self) -> str:
        """What the state means, and why the job ends."""
        return explain_state(self.job)

    @property
    def headline(self) -> str:
        """The state for who does not see the page."""
        return f"{self.job.get_state_display()}. {self.explanation}"

    @property
    def can_cancel(self) -> bool:
        """Whether it will end because somebody asks for it."""
        return not self.job.is_final and self.job.state != State.CLEANING

    @property
    def can_retry(self) -> bool:
        """Whether it has ended with something left to measure, and nothing retries it yet."""
        is_incomplete = self.done < self.job.planned_count
        return self.job.is_final and is_incomplete and self.retried_by is None


@dataclass(frozen=True, slots=True)
class EventLine:
    """One thing that happened: its first line, and the whole of it where there is more."""

    at: datetime
    state: str
    summary: str
    details: str


def job_lines(jobs: Iterable[BenchmarkJob]) -> list[JobLine]:
    """Jobs, whose machines and instances are best prefetched, in words."""
    return [
        JobLine(job, reason_text(job), usd_text(job_cost_usd(job)) if is_paid(job) else "")
        for job in jobs
    ]


def jobs_to_list() -> QuerySet[BenchmarkJob]:
    """Jobs with what a line needs, newest first; plans, which may be megabytes, stay behind."""
    return (
        BenchmarkJob.objects.select_related("machine", "remote_host", "created_by")
        .prefetch_related("instances")
        .defer("plan", "host_state")
    )


def job_progress(job: BenchmarkJob) -> JobProgress:
    """Where ``job`` stands now, in four queries."""
    done = job.stored_count + job.failed_count
    share = done / job.planned_count if job.planned_count else 1.0
    last_event = job.events.order_by("-id").values_list("id", flat=True).first()
    return JobProgress(
        job=job,
        done=done,
        percent=int(100 * share),
        time_left=_time_left(job, done),
        cost_text=usd_text(job_cost_usd(job)) if is_paid(job) else "",
        maximum_text=usd_text(job.maximum_usd) if job.maximum_usd is not None else "",
        last_event=last_event or 0,
        retry_text=_retry_text(job),
        retried_by=BenchmarkJob.objects.filter(retry_of=job).values_list("pk", flat=True).first(),
    )


def events_of(job: BenchmarkJob, page_number: str | int = 1) -> Page[JobEvent]:
    """A page of what happened to ``job``, newest first; a wrong number gives the nearest page."""
    events = job.events.order_by("-at", "-id")
    return Paginator(events, EVENTS_ON_A_PAGE).get_page(page_number)


def event_lines(page: Page[JobEvent]) -> list[EventLine]:
    """The events of a page in words."""
    return [_event_line(event) for event in page]


def networks_of(job: BenchmarkJob) -> list[Architecture]:
    """The public CNNs whose whole iterations the plan times, from its stored text."""
    plan: dict[str, Any] = BenchmarkJob.objects.values_list("plan", flat=True).get(pk=job.pk)
    sizes = {
        (item["architecture"], item["image_size"])
        for item in plan["work"]
        if item["kind"] == "iteration"
    }
    known = (
        Architecture.objects.public()
        .filter(slug__in={slug for slug, _ in sizes})
        .order_by("slug", "image_size")
        .only("slug", "image_size")
    )
    return [one for one in known if (one.slug, one.image_size) in sizes]


def runs_of(job: BenchmarkJob) -> list[UUID]:
    """The measurement runs that hold the job's timings."""
    return list(job.runs.order_by("started_at").values_list("pk", flat=True))


def reason_text(job: BenchmarkJob) -> str:
    """Why the job ends, in words."""
    return Reason(job.reason).outcome.sentence if job.reason else ""


def is_paid(job: BenchmarkJob) -> bool:
    """Whether the job rents its machine."""
    return job.host_kind == BenchmarkJob.HostKind.EC2


def usd_text(usd: Decimal) -> str:
    """Cents; what is below a cent is not nothing."""
    if 0 < usd < Decimal("0.01"):
        return "below $0.01"
    return format_exact_usd(float(round(usd, 2)))


def machines_with_jobs() -> list[str]:
    """The names of machines that jobs were made for."""
    machines = Machine.objects.filter(jobs__isnull=False).order_by("slug").distinct()
    return list(machines.values_list("slug", flat=True))


def _retry_text(job: BenchmarkJob) -> str:
    usd = agreed_usd(job) if job.is_final else None
    return "" if usd is None else usd_text(usd)


def _event_line(event: JobEvent) -> EventLine:
    state = State(event.new_state).label if event.new_state in State.values else ""
    lines = event.message.strip().splitlines()
    # The last line of a traceback says what went wrong.
    first = lines[-1] if event.message.startswith("Traceback") else lines[0] if lines else ""
    is_long = len(lines) > 1 or len(first) > LONGEST_SUMMARY
    return EventLine(
        at=event.at,
        state=state,
        summary=first[:LONGEST_SUMMARY],
        details=event.message if is_long else "",
    )


def _time_left(job: BenchmarkJob, done: int) -> str:
    if job.is_final or job.state in (State.COLLECTING, State.CLEANING):
        return ""
    running = job.events.filter(new_state=State.RUNNING).order_by("-id").first()
    elapsed = (timezone.now() - running.at).total_seconds() if running is not None else 0.0
    left = seconds_left(
        done=done,
        total=job.planned_count,
        elapsed_seconds=elapsed,
        expected_seconds=job.expected_seconds,
    )
    return "" if left is None else format_duration(left, error=0.5)
