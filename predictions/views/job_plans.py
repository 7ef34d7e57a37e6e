"""The page on which an operator plans a benchmark job and confirms what it may cost."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from benchmarking.jobs.proposal import JobRequestError
from benchmarking.jobs.quote import JobRefusedError
from predictions.job_actions import MAY_START
from predictions.job_plans import (
    MAX_KEY_LENGTH,
    ReusedKeyError,
    make_job_form,
    make_plan_page,
    start_once,
)
from predictions.job_query import JobQuery, parse_job_query
from predictions.query import QueryError
from predictions.raw_parameters import raw_parameters
from predictions.views.operators import for_operators, operator_of, require

_KEY_SENTENCE = (
    f"Starting a job takes an idempotency_key with 1 to {MAX_KEY_LENGTH} characters, which never "
    "starts a second one; the button that starts a plan sends one along."
)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@for_operators
def new_job(request: HttpRequest) -> HttpResponse:
    """What a job would measure, take and cost at most; ``POST`` starts exactly that."""
    if request.method == "POST":
        require(request, MAY_START)
        return _confirm(request)
    parameters = raw_parameters(request.GET)
    if not any(text.strip() for text in parameters.get("machine", ())):
        # A link from a CNN leaves the machine to be chosen.
        return _page(request, parameters, {})
    try:
        return _page(request, parameters, {}, parse_job_query(parameters))
    except QueryError as error:
        return _page(request, parameters, error.errors, status=400)
    except JobRequestError as error:
        return _page(request, parameters, {error.field: str(error)}, status=400)


def _confirm(request: HttpRequest) -> HttpResponse:
    parameters = raw_parameters(request.POST)
    parameters.pop("csrfmiddlewaretoken", None)
    (key,) = parameters.pop("idempotency_key", [""])[-1:]
    try:
        query = parse_job_query(parameters)
        if not 0 < len(key) <= MAX_KEY_LENGTH:
            return _page(request, parameters, {"idempotency_key": _KEY_SENTENCE}, query, status=400)
        job, _ = start_once(query, user=operator_of(request), idempotency_key=key)
    except QueryError as error:
        return _page(request, parameters, error.errors, status=400)
    except JobRequestError as error:
        return _page(request, parameters, {error.field: str(error)}, status=400)
    except (JobRefusedError, ReusedKeyError) as error:
        return _page(request, parameters, {"job": str(error)}, status=409)
    return redirect("job", pk=job.pk)


def _page(
    request: HttpRequest,
    parameters: dict[str, list[str]],
    errors: dict[str, str],
    query: JobQuery | None = None,
    status: int = 200,
) -> HttpResponse:
    context = {
        "page": "jobs",
        "form": make_job_form(parameters, errors, query),
        "plan": make_plan_page(query) if query is not None else None,
        "may_start": request.user.has_perm(MAY_START),
    }
    return render(request, "predictions/jobs/new.html", context, status=status)
