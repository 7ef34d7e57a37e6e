"""The operators' list of benchmark jobs."""

from __future__ import annotations

from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from benchmarking.models import BenchmarkJob

JOBS_SHOWN = 100


@require_safe
@never_cache
@staff_member_required
def job_list(request: HttpRequest) -> HttpResponse:
    """The newest jobs: what each measures, how far it is, why it ended."""
    jobs = BenchmarkJob.objects.select_related("machine").defer("plan")[:JOBS_SHOWN]
    return render(request, "predictions/job_list.html", {"page": "jobs", "jobs": jobs})
