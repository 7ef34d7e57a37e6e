"""Cloud and books agree again: instances that nobody needs end, rows without one are closed.

It looks in every region that is or was ever allowed, only at instances with the tag of this
deployment, and does nothing to those of another one. A job's own steps do the same for its
machine; the reaper is for the day on which they did not come to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from benchmarking.hosts.ec2 import options
from benchmarking.hosts.ec2.api import Ec2Api, InstanceView
from benchmarking.hosts.ec2.errors import Ec2Error
from benchmarking.hosts.ec2.launch import ApiOf
from benchmarking.hosts.ec2.termination import end_instance, is_young, record_launch
from benchmarking.jobs import instances
from benchmarking.models import CloudInstance

State = CloudInstance.State

# A launcher may not have come to write its instance down yet.
GRACE = timedelta(minutes=5)


@dataclass(slots=True)
class ReapReport:
    """A line for each thing that was done, and for each region that could not be seen."""

    ended: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def reap_instances(api_of: ApiOf = Ec2Api) -> ReapReport:
    """Look at every region once.

    A region that does not answer is reported, and does not keep the others waiting.
    """
    report = ReapReport()
    for region in options.watched_regions():
        try:
            _reap_region(region, options.deployment_name(), api_of(region), report)
        except Ec2Error as error:
            report.failed.append(f"{region}: {error}")
    return report


def _reap_region(region: str, deployment: str, api: Ec2Api, report: ReapReport) -> None:
    views = {view.id: view for view in api.list_deployment(deployment)}
    rows = _rows_of(views.values(), region)
    for view in views.values():
        if _costs(view) and _by_view(rows, view) is None and _is_past_grace(view):
            api.terminate(view.id)
            report.ended.append(f"{_name(view)}: nobody here knows it")
    for row in rows:
        found = next((v for v in views.values() if _belongs(v, row)), None)
        _reap_row(row, found, api, report)


def _reap_row(
    row: CloudInstance, view: InstanceView | None, api: Ec2Api, report: ReapReport
) -> None:
    was = row.state
    reason = _why_end(row, view)
    if reason:
        if row.state == State.INTENDED and view is not None:
            record_launch(row, view, api)
        end_instance(row, api)
        if view is not None and _costs(view):
            report.ended.append(f"{_name(view)}: {reason}")
    elif row.state in (State.PENDING, State.RUNNING):
        # A list may lag behind; one that is asked for by its id is there or not.
        view = view or api.find(row.instance_id)
        if view is None and not is_young(row):
            instances.mark_lost(row, "EC2 does not know it any more, and nobody has ended it.")
        elif view is not None and view.is_over:
            instances.mark_terminated(row, view.reason, view.reason_code)
    row.refresh_from_db()
    if row.state != was and row.state in (State.TERMINATED, State.LOST):
        report.closed.append(f"{row.instance_id or row.zone}: {row.get_state_display().lower()}")


def _why_end(row: CloudInstance, view: InstanceView | None) -> str:
    """Why an instance that is known here has to end, empty if it may go on or is over."""
    if row.state == State.TERMINATING:
        return "its end was asked for"
    if row.state in (State.TERMINATED, State.LOST):
        is_there = view is not None and _costs(view) and _is_past_grace(view)
        return "it was taken for gone" if is_there else ""
    if timezone.now() > row.expires_at:
        return "it is past its time"
    if row.job.is_final and (view is None or _is_past_grace(view)):
        return "its job has ended"
    return ""


def _rows_of(views: Iterable[InstanceView], region: str) -> list[CloudInstance]:
    """The rows of the instances seen, and all that are live by the books."""
    views = list(views)
    known = Q(instance_id__in=[view.id for view in views]) | Q(
        client_token__in=[view.client_token for view in views]
    )
    is_live = Q(region=region, state__in=CloudInstance.LIVE_STATES)
    rows = CloudInstance.objects.filter(known | is_live).select_related("job")
    return list(rows.defer("job__plan").order_by("id"))


def _by_view(rows: Iterable[CloudInstance], view: InstanceView) -> CloudInstance | None:
    return next((row for row in rows if _belongs(view, row)), None)


def _belongs(view: InstanceView, row: CloudInstance) -> bool:
    return view.id == row.instance_id or view.client_token == row.client_token


def _costs(view: InstanceView) -> bool:
    return view.state not in ("shutting-down", "terminated")


def _is_past_grace(view: InstanceView) -> bool:
    return timezone.now() - view.launched_at >= GRACE


def _name(view: InstanceView) -> str:
    return f"{view.id} ({view.instance_type} in {view.zone})"
