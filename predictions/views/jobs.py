"""Benchmark jobs for operators: the list, one job while it runs, cancel and retry, spending."""

from __future__ import annotations

import uuid
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.http import conditional_page, require_POST, require_safe

from benchmarking.jobs.budget import spending
from benchmarking.jobs.lifecycle import State
from benchmarking.jobs.quote import JobRefusedError
from benchmarking.models import BenchmarkJob
from predictions.job_actions import MAY_CANCEL, MAY_START, end_job, retry_once
from predictions.job_pages import (
    JOBS_ON_A_PAGE,
    POLL_SECONDS,
    event_lines,
    events_of,
    job_lines,
    job_progress,
    jobs_to_list,
    machines_with_jobs,
    networks_of,
    runs_of,
)
from predictions.job_spending import make_spending_report, stop_sentence
from predictions.views.operators import for_operators, operator_of, require


@require_safe
@never_cache
@for_operators
def job_list(request: HttpRequest) -> HttpResponse:
    """Jobs, newest first; ``?state=`` and ``?machine=`` keep some of them."""
    jobs = jobs_to_list()
    state, machine = request.GET.get("state", ""), request.GET.get("machine", "")
    if state in State.values:
        jobs = jobs.filter(state=state)
    machines = machines_with_jobs()
    if machine in machines:
        jobs = jobs.filter(machine__slug=machine)
    totals = spending()
    page = Paginator(jobs, JOBS_ON_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "page": "jobs",
        "lines": job_lines(page.object_list),
        "pages": page,
        "states": State.choices,
        "state": state,
        "machines": machines,
        "machine": machine,
        "query": urlencode({"state": state, "machine": machine}),
        "spending": totals,
        "stop_sentence": stop_sentence(totals),
    }
    return render(request, "predictions/jobs/list.html", context)


@require_safe
@never_cache
@for_operators
def job_page(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """One job: how far it is, what happened, what may be done."""
    return _job_page(request, get_object_or_404(jobs_to_list(), pk=pk))


@require_safe
@cache_control(private=True, no_cache=True)
@conditional_page
@for_operators
def job_progress_part(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """The part of the page that changes, for a browser that asks every few seconds.

    ``?seen=`` is the newest event that the page shows: where there is a newer one, the events,
    the buttons and the announcement come along.
    """
    job = get_object_or_404(jobs_to_list(), pk=pk)
    progress = job_progress(job)
    events = events_of(job, request.GET.get("events", 1))
    is_news = request.GET.get("seen", "") != str(progress.last_event)
    context = {
        "progress": progress,
        "is_news": is_news,
        "announces": is_news and request.GET.get("state", "") != job.state,
        "events": event_lines(events),
        "event_pages": events,
        "poll_seconds": POLL_SECONDS,
    }
    return render(request, "predictions/jobs/_part.html", context)


@require_POST
@never_cache
@for_operators
def cancel(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Ask for the end of a job; what is measured is still collected."""
    require(request, MAY_CANCEL)
    job = get_object_or_404(BenchmarkJob.objects.defer("plan"), pk=pk)
    end_job(job, message=f"Cancelled by {request.user}.")
    return redirect("job", pk=pk)


@require_POST
@never_cache
@for_operators
def retry(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Make a job of what is still missing of one that has ended."""
    require(request, MAY_START)
    job = get_object_or_404(BenchmarkJob, pk=pk)
    try:
        successor, _ = retry_once(job, user=operator_of(request))
    except JobRefusedError as error:
        return _job_page(request, jobs_to_list().get(pk=pk), refusal=str(error), status=409)
    return redirect("job", pk=successor.pk)


@require_safe
@never_cache
@for_operators
def spending_page(request: HttpRequest) -> HttpResponse:
    """What this month has cost, by job and machine, and what the limits leave."""
    context = {"page": "jobs", "report": make_spending_report()}
    return render(request, "predictions/jobs/spending.html", context)


def _job_page(
    request: HttpRequest, job: BenchmarkJob, *, refusal: str = "", status: int = 200
) -> HttpResponse:
    events = events_of(job, request.GET.get("events", 1))
    context = {
        "page": "jobs",
        "progress": job_progress(job),
        "events": event_lines(events),
        "event_pages": events,
        "networks": networks_of(job),
        "runs": runs_of(job),
        "refusal": refusal,
        "poll_seconds": POLL_SECONDS,
    }
    return render(request, "predictions/jobs/job.html", context, status=status)
