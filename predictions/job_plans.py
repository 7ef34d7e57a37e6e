"""What the page that plans a job shows, and how a confirmed plan becomes a job, once."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarking.hosts.ec2.options import launch_regions
from benchmarking.jobs.budget import Spending, spending
from benchmarking.jobs.proposal import HostKind, Proposal, propose_job, start_job
from benchmarking.jobs.quote import JobRefusedError
from benchmarking.models import BenchmarkJob, Machine, RemoteHost
from benchmarking.specs import Engine
from benchmarking.tasks import ring_for_job
from predictions.forecast import load_choices
from predictions.form import ForecastForm, Picker, SelectOption, make_form
from predictions.job_query import JobQuery

if TYPE_CHECKING:
    from django.contrib.auth.models import User

MAX_KEY_LENGTH = 200
EVERY_CNN = "every CNN"
ENGINE_LABELS = {Engine.TORCH: "PyTorch", Engine.DNNMARK: "DNNMark, layers only"}

_MORE_FIELDS = ("batch_sizes", "image_size", "precision", "engine", "rounds", "max_hours")


class ReusedKeyError(ValueError):
    """The idempotency key belongs to another job."""


@dataclass(frozen=True, slots=True)
class JobForm:
    """The fields of the page: what may be chosen and what was typed.

    ``shared`` has the choices that the forecast page has too.
    """

    shared: ForecastForm
    architectures: Picker
    machines: Mapping[str, list[SelectOption]]
    hosts: tuple[SelectOption, ...]
    remote_hosts: tuple[SelectOption, ...]
    engines: tuple[SelectOption, ...]
    texts: Mapping[str, str]
    errors: Mapping[str, str]
    has_more: bool


@dataclass(frozen=True, slots=True)
class PlanPage:
    """A proposal with what it is confirmed with: the same query, and a key that works once."""

    query: JobQuery
    proposal: Proposal
    spending: Spending
    idempotency_key: str

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """The query as the form repeats it; its maximum is the one that is shown."""
        pairs = [pair for pair in self.query.parameters if pair[0] != "max_usd"]
        if self.proposal.agreed_usd is not None:
            pairs.append(("max_usd", str(self.proposal.agreed_usd)))
        return pairs

    @property
    def host_text(self) -> str:
        """Where it is measured."""
        request = self.proposal.request
        if request.remote_host is not None:
            return f"{request.remote_host.name}, {request.remote_host.address}"
        if request.host_kind == HostKind.EC2:
            regions = ", then ".join(launch_regions(request.machine))
            return f"{HostKind.EC2.label}, {regions}"
        return HostKind(request.host_kind).label

    @property
    def longest_seconds(self) -> float:
        """From its start to its end, at most."""
        quote = self.proposal.quote
        return 0.0 if quote is None else float(quote.maximum_hours) * 3600

    @property
    def can_start(self) -> bool:
        """Whether there is something to measure and nothing that forbids it."""
        return bool(self.proposal.plan.work) and not self.proposal.refusal


def make_plan_page(query: JobQuery, idempotency_key: str = "") -> PlanPage:
    """Plan what ``query`` asks for; raises ``JobRequestError`` where it cannot be measured so."""
    return PlanPage(
        query=query,
        proposal=propose_job(query.request),
        spending=spending(),
        idempotency_key=idempotency_key or str(uuid.uuid4()),
    )


def make_job_form(
    parameters: Mapping[str, Sequence[str]],
    errors: Mapping[str, str],
    query: JobQuery | None = None,
) -> JobForm:
    """The form as it stands after ``parameters`` were given."""
    texts = {name: values[-1].strip() for name, values in parameters.items() if values}
    if query is not None:
        texts |= dict(query.parameters)
    machines: dict[str, list[SelectOption]] = {}
    rows = Machine.objects.order_by("provider", "slug").values_list(
        "provider", "slug", "device__name"
    )
    for provider, slug, device in rows:
        option = SelectOption(slug, f"{slug}, {device}", slug == texts.get("machine"))
        machines.setdefault(provider, []).append(option)
    remote_hosts = RemoteHost.objects.filter(is_enabled=True).select_related("machine")
    names = parameters.get("architecture", ())
    shared = make_form(parameters, load_choices(names), errors)
    return JobForm(
        shared=shared,
        architectures=shared.architectures
        if names
        else replace(shared.architectures, summary=EVERY_CNN),
        machines=machines,
        hosts=tuple(
            SelectOption(kind.value, kind.label, kind.value == texts.get("host"))
            for kind in HostKind
        ),
        remote_hosts=tuple(
            SelectOption(
                host.name, f"{host.name}, {host.machine}", host.name == texts.get("remote_host")
            )
            for host in remote_hosts
        ),
        engines=tuple(
            SelectOption(engine.value, ENGINE_LABELS[engine], engine.value == texts.get("engine"))
            for engine in Engine
        ),
        texts=texts,
        errors=errors,
        has_more=any(texts.get(name) for name in _MORE_FIELDS),
    )


def start_once(query: JobQuery, *, user: User, idempotency_key: str) -> tuple[BenchmarkJob, bool]:
    """The job of a confirmed query, and whether it was made just now.

    The same key of the same user gives the job that was made with it before: a double click, a
    reload and a client that asks again after a lost answer make one job.

    Raises
    ------
    JobRefusedError
        Where there is nothing to measure, or the limits of this site forbid it.
    JobRequestError
        Where it cannot be measured so.
    ReusedKeyError
        Where the key was used for something else.
    """
    key = hashlib.sha256(f"{user.pk} {idempotency_key}".encode()).hexdigest()
    if (known := _job_with_key(key, query)) is not None:
        return known, False
    proposal = propose_job(query.request)
    if not proposal.plan.work:
        # Perhaps it is under way already: by the first of two clicks, a moment ago.
        if (known := _job_with_key(key, query)) is not None:
            return known, False
        raise JobRefusedError("Nothing is missing: everything is measured or under way.")
    job = start_job(proposal, created_by=user, idempotency_key=key, ring=ring_for_job)
    return job, True


def _job_with_key(key: str, query: JobQuery) -> BenchmarkJob | None:
    job = BenchmarkJob.objects.defer("plan").filter(idempotency_key=key).first()
    if job is None:
        return None
    if query.request.digest() != job.request_digest:
        raise ReusedKeyError("This idempotency key was used for another job; make a new one.")
    return job
