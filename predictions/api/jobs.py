"""Benchmark jobs for operators' programs: where each stands and what happened to it.

Reading only: what costs money is started on the site or the command line, where its price is
shown first.
"""

from __future__ import annotations

from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_control
from django.views.decorators.http import conditional_page
from rest_framework import generics, serializers
from rest_framework.authentication import SessionAuthentication, TokenAuthentication
from rest_framework.permissions import IsAdminUser

from benchmarking.models import BenchmarkJob, JobEvent
from predictions.api.filter_fields import WordsFilter, machine_filter
from predictions.api.filters import StrictFilterSet
from predictions.api.pagination import Pages
from predictions.api.problems import ProblemDetails

# The plan can be long, and the host's state and the lease are between the workers.
_UNSHOWN = ("plan", "host_state")


class JobFilters(StrictFilterSet):
    """Of the list of jobs."""

    machine = machine_filter()
    state = WordsFilter(noun="state", choices=BenchmarkJob.State.choices)

    class Meta:
        model = BenchmarkJob
        fields = ()


class JobSerializer(serializers.ModelSerializer):
    """A job: how much is planned, stored and failed, and until when it may run."""

    machine = serializers.CharField(source="machine.slug")

    class Meta:
        model = BenchmarkJob
        fields: tuple[str, ...] = (
            "id",
            "machine",
            "host_kind",
            "engine",
            "state",
            "reason",
            "planned_count",
            "stored_count",
            "failed_count",
            "expected_seconds",
            "current_work",
            "deadline",
            "created_at",
            "started_at",
            "ended_at",
        )


class JobEventSerializer(serializers.ModelSerializer):
    """One thing that happened to a job."""

    class Meta:
        model = JobEvent
        fields = ("at", "old_state", "new_state", "reason", "message")


class JobDetailSerializer(JobSerializer):
    """A job with its events, oldest first."""

    events = JobEventSerializer(many=True)

    class Meta(JobSerializer.Meta):
        fields = (*JobSerializer.Meta.fields, "events")


class OperatorView(ProblemDetails):
    """For staff, by token or signed in; nobody in between keeps the answer."""

    authentication_classes = (TokenAuthentication, SessionAuthentication)
    permission_classes = (IsAdminUser,)


_KEPT_BY_NOBODY = (cache_control(private=True, no_cache=True), conditional_page)


@method_decorator(_KEPT_BY_NOBODY, name="dispatch")
class JobList(OperatorView, generics.ListAPIView):
    """Benchmark jobs, newest first."""

    queryset = BenchmarkJob.objects.select_related("machine").defer(*_UNSHOWN)
    serializer_class = JobSerializer
    filterset_class = JobFilters
    pagination_class = Pages


@method_decorator(_KEPT_BY_NOBODY, name="dispatch")
class JobDetail(OperatorView, generics.RetrieveAPIView):
    """One benchmark job with everything that happened to it."""

    queryset = (
        BenchmarkJob.objects.select_related("machine").prefetch_related("events").defer(*_UNSHOWN)
    )
    serializer_class = JobDetailSerializer
