"""Ending an instance, and believing that it is over only when EC2 says so."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from benchmarking.hosts.ec2.api import Ec2Api, InstanceView
from benchmarking.jobs import instances
from benchmarking.jobs.deadlines import TERMINATION_ALERT_AFTER
from benchmarking.models import CloudInstance

logger = logging.getLogger(__name__)


def consistency_window() -> timedelta:
    """For how long after a launch "there is no such instance" proves nothing."""
    return timedelta(seconds=settings.EC2_CONSISTENCY_SECONDS)


def end_instance(instance: CloudInstance, api: Ec2Api) -> bool:
    """Bring an instance one step nearer to its end; true once EC2 says that it is over.

    To be called again until then: asking twice for the end of an instance does no harm. An
    intent whose answer was lost is looked up by its token first. Raises ``Ec2Error``.
    """
    if instance.state == CloudInstance.State.INTENDED and not _find_launched(instance, api):
        return instance.state == CloudInstance.State.TERMINATED
    instances.mark_terminating(instance)
    api.terminate(instance.instance_id)
    view = api.find(instance.instance_id)
    if view is None:
        if is_young(instance):
            return False
        instances.mark_terminated(instance, "EC2 does not know it any more.")
        return True
    if view.is_over:
        instances.mark_terminated(instance, view.reason, view.reason_code)
        return True
    asked_at = instance.terminate_asked_at
    if asked_at is not None and timezone.now() - asked_at > TERMINATION_ALERT_AFTER:
        report_trouble(
            instance,
            f"ALERT: {instance.instance_id} is still not terminated, "
            f"{TERMINATION_ALERT_AFTER // timedelta(minutes=1)} minutes after it was asked for.",
        )
    return False


def is_young(instance: CloudInstance) -> bool:
    """Whether EC2 may not show it yet, though it is there."""
    since = instance.launched_at or instance.asked_at or instance.intended_at
    return timezone.now() - since < consistency_window()


def record_launch(instance: CloudInstance, view: InstanceView, api: Ec2Api) -> bool:
    """Write down that the cloud has made an instance; true if it can be used.

    If the row was given up meanwhile, nobody else knows of the instance, and it is ended.
    """
    if not instances.mark_launched(
        instance, instance_id=view.id, zone=view.zone, launched_at=view.launched_at
    ):
        api.terminate(view.id)
        return False
    if view.is_over:
        instances.mark_terminated(instance, view.reason, view.reason_code)
        return False
    return True


def report_trouble(instance: CloudInstance, message: str) -> None:
    """Tell the operator, once for each piece of news."""
    if instances.note(instance, message):
        logger.error("%s", message)


def _find_launched(instance: CloudInstance, api: Ec2Api) -> bool:
    """Whether an intent has an instance that still has to be ended."""
    if instance.asked_at is not None:
        view = api.find_by_token(instance.client_token)
        if view is not None:
            return record_launch(instance, view, api)
        if is_young(instance):
            return False
    instances.mark_never_made(instance)
    return False
