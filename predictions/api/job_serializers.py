"""Benchmark jobs as the API writes them, and the requests that it reads."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from rest_framework import serializers

from benchmarking.jobs.budget import job_cost_usd
from benchmarking.jobs.explanations import explain_state
from benchmarking.models import BenchmarkJob, JobEvent
from predictions.job_pages import is_paid
from predictions.job_plans import PlanPage
from predictions.job_query import ENGINES, HOST_KINDS
from predictions.query import PRECISIONS, PRICE_KINDS


class JobSerializer(serializers.ModelSerializer):
    """A job: how much is planned, stored and failed, what it costs, until when it may run."""

    machine = serializers.CharField(source="machine.slug")
    remote_host = serializers.CharField(source="remote_host.name", default=None, allow_null=True)
    price_kind = serializers.CharField()
    explanation = serializers.SerializerMethodField(
        help_text="What the state means, and why the job ends."
    )
    maximum_usd = serializers.FloatField(
        allow_null=True, help_text="What was agreed to at most; null where nothing is paid."
    )
    cost_usd = serializers.SerializerMethodField(help_text="So far; null where nothing is paid.")

    class Meta:
        model = BenchmarkJob
        fields: tuple[str, ...] = (
            "id",
            "machine",
            "host_kind",
            "remote_host",
            "price_kind",
            "engine",
            "state",
            "reason",
            "explanation",
            "planned_count",
            "stored_count",
            "failed_count",
            "expected_seconds",
            "current_work",
            "maximum_usd",
            "cost_usd",
            "retry_of",
            "attempt",
            "deadline",
            "created_at",
            "started_at",
            "ended_at",
        )

    def get_explanation(self, job: BenchmarkJob) -> str:
        """In plain words."""
        return explain_state(job)

    def get_cost_usd(self, job: BenchmarkJob) -> float | None:
        """Of all machines that were rented for it."""
        return float(job_cost_usd(job)) if is_paid(job) else None


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


class JobRequestSerializer(serializers.Serializer):
    """What to measure, where, and at most for how much: the names of the quote's query string."""

    machine = serializers.CharField(help_text="For example aws-g4dn.xlarge.")
    architecture = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        min_length=1,
        help_text="CNNs; every known one if unset.",
    )
    image_size = serializers.IntegerField(required=False, help_text="Pixels.")
    batch_sizes = serializers.CharField(required=False, help_text="1-16 or 8,16,32.")
    precision = serializers.ChoiceField(PRECISIONS, required=False)
    engine = serializers.ChoiceField(ENGINES, required=False)
    rounds = serializers.IntegerField(required=False, help_text="Timings of each; 1 if unset.")
    host = serializers.ChoiceField(
        HOST_KINDS, required=False, help_text="Where the machine is; as usual for it if unset."
    )
    remote_host = serializers.CharField(required=False, help_text="With host ssh.")
    price = serializers.CharField(
        required=False, help_text=f"With host ec2: {' or '.join(PRICE_KINDS)}."
    )
    max_usd = serializers.FloatField(
        required=False, help_text="Required with host ec2: what the job may cost at most."
    )
    max_hours = serializers.FloatField(required=False, help_text="Of measuring, at most.")


class JobQuoteSerializer(serializers.Serializer):
    """What a job would measure, take and cost; nothing is started by asking."""

    machine = serializers.CharField()
    host = serializers.ChoiceField(HOST_KINDS)
    remote_host = serializers.CharField(allow_null=True)
    engine = serializers.ChoiceField(ENGINES)
    stack = serializers.CharField(help_text="The software stack that the plan is made for.")
    timings = serializers.IntegerField(help_text="Missing timings that it would bring.")
    pieces_of_work = serializers.IntegerField()
    already_measured = serializers.IntegerField(help_text="Stored, or under way in other jobs.")
    left_out = serializers.ListField(child=serializers.CharField())
    expected_seconds = serializers.FloatField()
    boot_seconds = serializers.FloatField(allow_null=True)
    time_budget_seconds = serializers.FloatField(allow_null=True)
    longest_seconds = serializers.FloatField(
        allow_null=True, help_text="From its start to its end, at most."
    )
    deadline = serializers.DateTimeField(
        allow_null=True, help_text="When it is over at the latest if it starts now."
    )
    price = serializers.CharField(help_text=f"{' or '.join(PRICE_KINDS)}.")
    usd_per_hour = serializers.FloatField(allow_null=True)
    price_region = serializers.CharField(allow_null=True)
    price_as_of = serializers.CharField(allow_null=True)
    expected_usd = serializers.FloatField(allow_null=True)
    maximum_usd = serializers.FloatField(allow_null=True)
    left_this_month_usd = serializers.FloatField()
    can_start = serializers.BooleanField()
    refusal = serializers.CharField(
        allow_null=True, help_text="Why it cannot be started now, in a sentence."
    )


def quote_document(plan: PlanPage) -> dict[str, Any]:
    """The quote that the page shows, by the names of :class:`JobQuoteSerializer`."""
    proposal = plan.proposal
    request, quote = proposal.request, proposal.quote
    price = None if quote is None else quote.price
    return {
        "machine": request.machine.slug,
        "host": request.host_kind,
        "remote_host": None if request.remote_host is None else request.remote_host.name,
        "engine": request.engine.value,
        "stack": proposal.stack.label,
        "timings": proposal.plan.timing_count,
        "pieces_of_work": len(proposal.plan.work),
        "already_measured": proposal.plan.already_measured,
        "left_out": list(proposal.plan.left_out),
        "expected_seconds": proposal.plan.expected_seconds,
        "boot_seconds": None if quote is None else quote.boot_seconds,
        "time_budget_seconds": None if quote is None else quote.time_budget_seconds,
        "longest_seconds": None if quote is None else plan.longest_seconds,
        "deadline": None if quote is None else quote.deadline,
        "price": request.price_kind,
        "usd_per_hour": None if quote is None else _number(quote.usd_per_hour),
        "price_region": None if price is None else price.region,
        "price_as_of": None if price is None else price.as_of or None,
        "expected_usd": None if quote is None else _number(quote.expected_usd),
        "maximum_usd": _number(proposal.agreed_usd),
        "left_this_month_usd": float(plan.spending.left_this_month_usd),
        "can_start": plan.can_start,
        "refusal": proposal.refusal or None,
    }


def _number(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)
