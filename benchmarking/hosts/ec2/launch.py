"""Where a job's machine is to be launched next, and everything that is asked for there.

A round tries every zone once, in the regions that are allowed; its number is the ``attempt`` of
its rows, from which another process sees what was tried. A new round begins with the first call
after the last one was over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.utils import timezone

from benchmarking.catalogue.selectors import newest_price
from benchmarking.hosts.base import HostFault, HostFaultError
from benchmarking.hosts.ec2 import options
from benchmarking.hosts.ec2.api import Ec2Api
from benchmarking.hosts.ec2.errors import ErrorClass, classify, quota_name
from benchmarking.hosts.ec2.request import Place, build_request, client_token, launch_tags
from benchmarking.hosts.ec2.user_data import build_user_data
from benchmarking.jobs.deadlines import instance_expiry
from benchmarking.jobs.instances import LaunchIntent
from benchmarking.jobs.secrets import SecretUnreadableError, create_job_secret, read_job_secret
from benchmarking.models import BenchmarkJob, CloudInstance, Machine, Price

ApiOf = Callable[[str], Ec2Api]


class LaunchRound:
    """One call's look at what is left to try; what it asks the cloud, it asks once.

    Parameters
    ----------
    api_of
        The API of a region.
    """

    def __init__(self, job: BenchmarkJob, api_of: ApiOf) -> None:
        self._job = job
        self._api_of = api_of
        self._places: dict[str, list[Place]] = {}
        # 0 until somebody has looked which round it is.
        self._attempt = 0

    def next_intent(self) -> LaunchIntent:
        """The next launch to try.

        Raises
        ------
        HostFaultError
            Once every place was tried in this round, or if there is no place to try; and if a
            setting that a launch needs is wrong.
        Ec2Error
        """
        if not self._attempt:
            refuse_unlaunchable(self._job.machine)
            self._attempt = self._last_attempt()
            if self._attempt_rows() and self._next_place()[0] is None:
                self._attempt += 1
        place, notes = self._next_place()
        if place is None:
            raise self._fault(notes)
        return self._intent(place)

    def _next_place(self) -> tuple[Place | None, list[str]]:
        """The first place not tried yet, else why regions have none."""
        rows = self._attempt_rows()
        tried = {row.zone for row in rows}
        exhausted = {row.region for row in rows if _class_of(row) is ErrorClass.QUOTA}
        notes = []
        for region in options.launch_regions(self._job.machine):
            if region in exhausted:
                continue
            if self._price(region) is None:
                notes.append(f"no {self._job.price_kind} price is known in {region}")
                continue
            places = self._places_in(region)
            if not places:
                notes.append(f"{region} offers none in the subnets that may be used")
            for place in places:
                if place.zone not in tried:
                    return place, notes
        return None, notes

    def _places_in(self, region: str) -> list[Place]:
        if region not in self._places:
            self._places[region] = self._api_of(region).list_places(
                self._job.machine.instance_type, options.subnet_ids(region)
            )
        return self._places[region]

    def _price(self, region: str) -> Decimal | None:
        price = newest_price(self._job.machine, self._job.price_kind, region)
        return price.usd_per_hour if price is not None else None

    def _last_attempt(self) -> int:
        last = CloudInstance.objects.filter(job=self._job).order_by("-attempt").first()
        return last.attempt if last is not None else 1

    def _attempt_rows(self) -> Sequence[CloudInstance]:
        rows = CloudInstance.objects.filter(job=self._job, attempt=self._attempt)
        return list(rows.order_by("id"))

    def _intent(self, place: Place) -> LaunchIntent:
        job = self._job
        machine = job.machine
        attempt = self._attempt
        usd_per_hour = self._price(place.region)
        assert usd_per_hour is not None
        api = self._api_of(place.region)
        deployment = options.deployment_name()
        image = api.find_image(options.image_id(place.region), settings.EC2_IMAGE_PARAMETER)
        security_group_id = api.ensure_security_group(
            vpc_id=place.vpc_id,
            deployment=deployment,
            worker_cidr=settings.EC2_WORKER_CIDR,
            port=settings.EC2_SSH_PORT,
        )
        now = timezone.now()
        minutes = _minutes_between(now, instance_expiry(job))
        expires_at = now + timedelta(minutes=minutes)
        token = client_token(
            deployment=deployment,
            job_id=job.pk,
            attempt=attempt,
            zone=place.zone,
            instance_type=machine.instance_type,
        )
        tags = launch_tags(
            deployment=deployment, job_id=job.pk, attempt=attempt, expires_at=expires_at
        )
        create_job_secret(job)
        return LaunchIntent(
            attempt=attempt,
            region=place.region,
            zone=place.zone,
            instance_type=machine.instance_type,
            price_kind=job.price_kind,
            client_token=token,
            request=build_request(
                place=place,
                instance_type=machine.instance_type,
                image=image,
                security_group_id=security_group_id,
                token=token,
                tags=tags,
                is_spot=job.price_kind == Price.Kind.SPOT,
            ),
            user_data_sha256=hashlib.sha256(user_data_of(job, minutes)).hexdigest(),
            usd_per_hour=usd_per_hour,
            intended_at=now,
            expires_at=expires_at,
        )

    def _fault(self, notes: Sequence[str]) -> HostFaultError:
        """Why the round is over, with every place that was tried and what AWS said there."""
        job = self._job
        what = f"{job.machine.instance_type} ({job.get_price_kind_display().lower()})"
        rows = self._attempt_rows()
        said = [f"{row.zone}: {row.message}" for row in rows]
        details = "; ".join([*said, *notes])
        classes = {_class_of(row) for row in rows}
        if ErrorClass.CAPACITY in classes:
            return HostFaultError(HostFault.CAPACITY, f"No zone has a {what} now. {details}")
        if ErrorClass.QUOTA in classes:
            quota = quota_name(job.machine.instance_type, is_spot=job.price_kind == Price.Kind.SPOT)
            return HostFaultError(
                HostFault.QUOTA, f"The account's quota {quota!r} does not allow a {what}. {details}"
            )
        if rows:
            return HostFaultError(
                HostFault.LAUNCH_LOST, f"Every {what} ended before it was used. {details}"
            )
        return HostFaultError(
            HostFault.CONFIGURATION,
            f"There is no place to launch a {what}: {details}. Look at EC2_REGIONS and "
            "EC2_SUBNETS, and refresh the prices.",
        )


def refuse_unlaunchable(machine: Machine) -> None:
    """Raise ``HostFaultError`` for what no region could launch, before anybody is asked."""
    if machine.availability == Machine.Availability.RETIRED:
        raise HostFaultError(
            HostFault.RETIRED, f"{machine} is retired: it cannot be rented any more."
        )
    if machine.provider != options.PROVIDER:
        raise HostFaultError(
            HostFault.CONFIGURATION, f"{machine} is a machine of {machine.provider}, not of AWS."
        )
    if not settings.EC2_WORKER_CIDR:
        raise HostFaultError(
            HostFault.CONFIGURATION,
            "EC2_WORKER_CIDR is not set: it names the address from which the workers log in, such "
            "as 203.0.113.7/32, and the machine is opened to nobody else.",
        )


def user_data_of(job: BenchmarkJob, shutdown_minutes: int) -> bytes:
    """The user data of the job's launches: always the same bytes for the same minutes.

    Raises
    ------
    HostFaultError
        If this process cannot read the job's keys.
    SecretErasedError
        If the job is cleaned up.
    """
    try:
        keys = read_job_secret(job)
    except SecretUnreadableError as error:
        raise HostFaultError(HostFault.CONFIGURATION, str(error)) from error
    return build_user_data(
        shutdown_minutes=shutdown_minutes,
        user=settings.EC2_USER,
        login_public_key=keys.login_public_key,
        host_private_key=keys.host_private_key,
        host_public_key=keys.host_public_key,
    )


def stored_user_data(instance: CloudInstance) -> bytes:
    """The user data of a stored intent, made again; raises ``HostFaultError`` if it came out
    differently, for then the same token would stand for two requests."""
    minutes = _minutes_between(instance.intended_at, instance.expires_at)
    data = user_data_of(instance.job, minutes)
    if hashlib.sha256(data).hexdigest() != instance.user_data_sha256:
        raise HostFaultError(
            HostFault.LAUNCH_BUG,
            "The user data of the launch cannot be made again: EC2_USER or the program was changed "
            "while the job was launching.",
        )
    return data


def _minutes_between(start: datetime, end: datetime) -> int:
    return max(1, (end - start) // timedelta(minutes=1))


def _class_of(instance: CloudInstance) -> ErrorClass:
    """What AWS answered to a launch."""
    return classify(instance.cloud_code)
