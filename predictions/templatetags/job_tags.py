"""Template tags of the pages of benchmark jobs."""

from __future__ import annotations

from decimal import Decimal

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from benchmarking.models import BenchmarkJob
from predictions.display import format_duration, format_exact_usd
from predictions.job_pages import usd_text

register = template.Library()

ROUGHLY = 0.5
State = BenchmarkJob.State

_TONES = {
    State.QUEUED: "waits",
    State.WAITING_CAPACITY: "waits",
    State.SUCCEEDED: "good",
    State.FAILED: "bad",
    State.CANCELLED: "ended",
}


@register.simple_tag
def job_state(job: BenchmarkJob) -> SafeString:
    """The state's name with its sign."""
    tone = _TONES.get(State(job.state), "works")
    return format_html('<span class="state state-{}">{}</span>', tone, job.get_state_display())


@register.filter
def usd(amount: Decimal) -> str:
    """Dollars and cents."""
    return usd_text(amount)


@register.filter
def usd_an_hour(amount: Decimal) -> str:
    """A price, as quoted."""
    return f"{format_exact_usd(float(amount))}/h"


@register.filter
def duration(seconds: float) -> str:
    """A duration as plans know it: roughly."""
    return format_duration(float(seconds), error=ROUGHLY)
