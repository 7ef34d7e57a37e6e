"""Benchmark jobs in the admin: to watch, cancel and retry; only the lifecycle changes them."""

from __future__ import annotations

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from benchmarking.admin.architectures import ReadOnly
from benchmarking.jobs.lifecycle import cancel_job
from benchmarking.jobs.quote import JobRefusedError
from benchmarking.jobs.retry import retry_job
from benchmarking.models import BenchmarkJob, JobEvent
from benchmarking.tasks import ring_for_job


class EventInline(ReadOnly, admin.TabularInline):
    """What happened to a job, first things first."""

    model = JobEvent
    fields = ("at", "old_state", "new_state", "reason", "message")
    extra = 0


@admin.register(BenchmarkJob)
class BenchmarkJobAdmin(ReadOnly, admin.ModelAdmin):
    """Jobs with their events."""

    list_display = (
        "created_at",
        "machine",
        "host_kind",
        "state",
        "reason",
        "progress",
        "current_work",
        "expected_seconds",
        "created_by",
    )
    list_filter = ("state", "host_kind", "engine", "reason")
    list_select_related = ("machine", "created_by")
    search_fields = ("machine__slug", "id")
    date_hierarchy = "created_at"
    inlines = (EventInline,)
    actions = ("cancel", "retry")
    # A plan of thousands of pieces of work is no reading matter, and a lease token none either.
    exclude = ("plan", "lease_token")

    def get_queryset(self, request: HttpRequest) -> QuerySet[BenchmarkJob]:
        """See ``ModelAdmin``."""
        return super().get_queryset(request).defer("plan")

    def view_on_site(self, job: BenchmarkJob) -> str:
        """The page that follows the job."""
        return reverse("job", args=[job.pk])

    @admin.display(description="Stored")
    def progress(self, job: BenchmarkJob) -> str:
        """Stored and failed pieces of work of those planned."""
        failed = f", {job.failed_count} failed" if job.failed_count else ""
        return f"{job.stored_count} of {job.planned_count}{failed}"

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Whoever may change jobs may cancel them."""
        return request.user.has_perm("benchmarking.change_benchmarkjob")

    @admin.action(description="Cancel selected jobs", permissions=["cancel"])
    def cancel(self, request: HttpRequest, jobs: QuerySet[BenchmarkJob]) -> None:
        """Ask for the end of each job; what is measured is still collected."""
        selected = list(jobs)
        cancelled = sum(
            cancel_job(job, message=f"Cancelled by {request.user} in the admin.")
            for job in selected
        )
        self.message_user(
            request,
            f"{cancelled} of {len(selected)} jobs will end; the others had ended already.",
            messages.SUCCESS if cancelled else messages.WARNING,
        )

    def has_retry_permission(self, request: HttpRequest) -> bool:
        """Whoever may start jobs may go on with them."""
        return request.user.has_perm("benchmarking.add_benchmarkjob")

    @admin.action(description="Measure what selected jobs have not", permissions=["retry"])
    def retry(self, request: HttpRequest, jobs: QuerySet[BenchmarkJob]) -> None:
        """A job for what each has left, for at most what was agreed to."""
        assert isinstance(request.user, User)
        for job in jobs.defer(None):
            try:
                successor = retry_job(job, user=request.user, ring=ring_for_job)
            except JobRefusedError as error:
                self.message_user(request, f"{job}: {error}", messages.WARNING)
            else:
                page = reverse("job", args=[successor.pk])
                self.message_user(
                    request,
                    format_html(
                        '<a href="{}">A job</a> measures what {} has left.', page, str(job)
                    ),
                    messages.SUCCESS,
                )
