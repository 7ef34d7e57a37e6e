"""Benchmark jobs for operators' programs: quote, start, watch, cancel, retry.

What costs money needs a permission, a maximum that the caller names, and a key that makes a
repeated request harmless.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.shortcuts import get_object_or_404
from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_control
from django.views.decorators.http import conditional_page
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics
from rest_framework.authentication import SessionAuthentication, TokenAuthentication
from rest_framework.exceptions import APIException, PermissionDenied
from rest_framework.permissions import IsAdminUser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from benchmarking.jobs.proposal import HostKind, JobRequestError
from benchmarking.jobs.quote import JobRefusedError
from benchmarking.models import BenchmarkJob, JobEvent
from benchmarking.probe.checked_fields import without_unstorable
from predictions.api.filter_fields import WordsFilter, machine_filter
from predictions.api.filters import StrictFilterSet
from predictions.api.job_serializers import (
    JobDetailSerializer,
    JobEventSerializer,
    JobQuoteSerializer,
    JobRequestSerializer,
    JobSerializer,
    quote_document,
)
from predictions.api.pagination import Pages
from predictions.api.parsers import BoundedJsonParser
from predictions.api.problems import ProblemDetails
from predictions.api.serializers import ProblemSerializer
from predictions.job_actions import MAY_CANCEL, MAY_START, end_job, retry_once
from predictions.job_pages import jobs_to_list
from predictions.job_plans import MAX_KEY_LENGTH, ReusedKeyError, make_plan_page, start_once
from predictions.job_query import JobQuery, parse_job_query
from predictions.problems import CONTENT_TYPE
from predictions.query import QueryError
from predictions.raw_parameters import raw_parameters

_KEPT_BY_NOBODY = (cache_control(private=True, no_cache=True), conditional_page)
# The schema's hook adds those that any request may meet.
_CONFLICT: dict[Any, Any] = {(409, CONTENT_TYPE): ProblemSerializer}
_BAD_BODY: dict[Any, Any] = {
    (415, CONTENT_TYPE): ProblemSerializer,
    (422, CONTENT_TYPE): ProblemSerializer,
}


class RefusedJob(APIException):
    """409: such a job cannot be made now."""

    status_code = 409


class ReusedKey(APIException):
    """422: the key was used for another job."""

    status_code = 422


class JobFilters(StrictFilterSet):
    """Of the list of jobs."""

    machine = machine_filter()
    state = WordsFilter(noun="state", choices=BenchmarkJob.State.choices)

    class Meta:
        model = BenchmarkJob
        fields = ()


class OperatorView(ProblemDetails):
    """For staff, by token or signed in; nobody in between keeps the answer."""

    authentication_classes = (TokenAuthentication, SessionAuthentication)
    permission_classes = (IsAdminUser,)
    parser_classes = (BoundedJsonParser,)


@method_decorator(_KEPT_BY_NOBODY, name="dispatch")
class JobList(OperatorView, generics.ListAPIView):
    """Benchmark jobs, newest first."""

    queryset = jobs_to_list()
    serializer_class = JobSerializer
    filterset_class = JobFilters
    pagination_class = Pages

    @extend_schema(
        operation_id="jobs_create",
        request=JobRequestSerializer,
        parameters=[
            OpenApiParameter(
                "Idempotency-Key",
                OpenApiTypes.STR,
                OpenApiParameter.HEADER,
                required=True,
                description="Sent again by the same account, the first job comes back.",
            )
        ],
        responses={201: JobSerializer, 200: JobSerializer, **_CONFLICT, **_BAD_BODY},
    )
    def post(self, request: Request) -> Response:
        """Start a job; what it may cost at most is said with it."""
        _require(request, MAY_START)
        key = request.headers.get("Idempotency-Key", "")
        if not 0 < len(key) <= MAX_KEY_LENGTH:
            raise QueryError(
                {
                    "Idempotency-Key": "Send an Idempotency-Key of your own with 1 to "
                    f"{MAX_KEY_LENGTH} characters: the same key never starts a second job."
                }
            )
        query = _parse(_texts(request.data))
        if query.request.host_kind == HostKind.EC2 and query.request.maximum_usd is None:
            raise QueryError(
                {"max_usd": "Say what the job may cost at most; /api/v1/jobs/quote/ helps."}
            )
        try:
            job, is_new = start_once(query, user=request.user, idempotency_key=key)
        except JobRequestError as error:
            raise QueryError({error.field: str(error)}) from error
        except JobRefusedError as error:
            raise RefusedJob(str(error)) from error
        except ReusedKeyError as error:
            raise ReusedKey(str(error)) from error
        return _job_response(job, status=201 if is_new else 200)


class JobQuoteView(OperatorView, APIView):
    """What a job would measure, take and cost at most."""

    @extend_schema(
        operation_id="jobs_quote",
        parameters=[JobRequestSerializer],
        responses={200: JobQuoteSerializer},
    )
    @method_decorator(cache_control(private=True, no_store=True))
    def get(self, request: Request) -> Response:
        """The plan that the page shows, for the same query string; nothing is started."""
        query = _parse(raw_parameters(request.query_params))
        try:
            plan = make_plan_page(query)
        except JobRequestError as error:
            raise QueryError({error.field: str(error)}) from error
        return Response(JobQuoteSerializer(quote_document(plan)).data)


@method_decorator(_KEPT_BY_NOBODY, name="dispatch")
class JobDetail(OperatorView, generics.RetrieveAPIView):
    """One benchmark job with everything that happened to it."""

    queryset = jobs_to_list().prefetch_related("events")
    serializer_class = JobDetailSerializer


@method_decorator(_KEPT_BY_NOBODY, name="dispatch")
class JobEventList(OperatorView, generics.ListAPIView):
    """What happened to a job, oldest first, in pages."""

    queryset = JobEvent.objects.none()
    serializer_class = JobEventSerializer
    pagination_class = Pages
    filter_backends = ()

    def get_queryset(self) -> Any:
        """The events of the job in the address."""
        job = get_object_or_404(BenchmarkJob.objects.only("pk"), pk=self.kwargs["pk"])
        return job.events.all()


class JobCancel(OperatorView, APIView):
    """Cancel a job."""

    @extend_schema(
        operation_id="jobs_cancel",
        request=None,
        responses={200: JobSerializer},
    )
    def post(self, request: Request, pk: Any) -> Response:
        """Ask for its end; what is measured is kept. A job that has ended stays as it is."""
        _require(request, MAY_CANCEL)
        job = get_object_or_404(BenchmarkJob.objects.defer("plan"), pk=pk)
        end_job(job, message=f"Cancelled by {request.user} through the API.")
        return _job_response(job)


class JobRetry(OperatorView, APIView):
    """Go on with a job that has ended."""

    @extend_schema(
        operation_id="jobs_retry",
        request=None,
        responses={201: JobSerializer, 200: JobSerializer, **_CONFLICT},
    )
    def post(self, request: Request, pk: Any) -> Response:
        """A job of what is missing, for what was agreed to; asked again, the same job."""
        _require(request, MAY_START)
        job = get_object_or_404(BenchmarkJob, pk=pk)
        try:
            successor, is_new = retry_once(job, user=request.user)
        except JobRefusedError as error:
            raise RefusedJob(str(error)) from error
        return _job_response(successor, status=201 if is_new else 200)


def _require(request: Request, permission: str) -> None:
    if not request.user.has_perm(permission):
        raise PermissionDenied


def _job_response(job: BenchmarkJob, status: int = 200) -> Response:
    return Response(JobSerializer(jobs_to_list().get(pk=job.pk)).data, status=status)


def _parse(parameters: Mapping[str, list[str]]) -> JobQuery:
    return parse_job_query({name: list(texts) for name, texts in parameters.items()})


def _texts(data: Any) -> dict[str, list[str]]:
    """The members of a JSON object as texts, as a query string would have them."""
    if not isinstance(data, Mapping):
        raise QueryError({"body": "Send one JSON object."})
    errors: dict[str, str] = {}
    texts: dict[str, list[str]] = {}
    for name, value in data.items():
        values = value if isinstance(value, list) else [value]
        if all(_is_plain(each) for each in values):
            # In a list, empty texts are nothing; alone, such a text is a field left empty.
            kept = values if values is not value else [each for each in values if str(each).strip()]
            texts[str(name)] = [str(each) for each in kept]
        else:
            errors[without_unstorable(str(name))[:60]] = "Send text, a number, or a list of those."
    if errors:
        raise QueryError(errors)
    return texts


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)
