"""A machine of EC2, launched for one job and reached over SSH.

What is known of the machine stands in its ``CloudInstance`` row: the intent is committed before
AWS is asked, so that whoever comes after a crash finds it and asks for the same again. Nothing
is kept in ``HostJob.state`` but ``waits_for``, the limit that a job waits for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from django.conf import settings

from benchmarking.hosts.base import (
    Host,
    HostFault,
    HostFaultError,
    HostJob,
    HostUnavailableError,
    ProcessReport,
    ProcessStatus,
)
from benchmarking.hosts.ec2.api import SPOT_REASON, Ec2Api, InstanceView
from benchmarking.hosts.ec2.errors import Ec2Error, ErrorClass
from benchmarking.hosts.ec2.launch import ApiOf, LaunchRound, stored_user_data
from benchmarking.hosts.ec2.termination import (
    end_instance,
    is_young,
    record_launch,
    report_trouble,
)
from benchmarking.hosts.ssh import SshHost, SshTarget
from benchmarking.jobs import instances
from benchmarking.jobs.budget import LimitReachedError
from benchmarking.jobs.lifecycle import State as JobState
from benchmarking.jobs.secrets import read_job_secret
from benchmarking.models import BenchmarkJob, CloudInstance, Price

# Another zone is tried in the same step as long as the step is younger than this.
NEXT_PLACE_SECONDS = 15.0
WAITS_FOR = "waits_for"

_Answer = TypeVar("_Answer")
InstanceState = CloudInstance.State


class Ec2Host:
    """The machine of one job.

    Parameters
    ----------
    api_of
        The API of a region; replaced by tests.
    ssh_of
        The host behind an SSH target; replaced by tests.
    clock
        Seconds, for the length of a step only.
    """

    def __init__(
        self,
        job: BenchmarkJob,
        *,
        api_of: ApiOf = Ec2Api,
        ssh_of: Callable[[SshTarget], Host] = SshHost,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self._api_of = api_of
        self._ssh_of = ssh_of
        self._clock = clock

    def acquire(self, job: HostJob) -> bool:
        """Launch in the first zone that has a machine; see ``Host``.

        False also while a limit that will be free again forbids the launch, or launches are
        switched off; ``state["waits_for"]`` then says what it waits for.

        Raises
        ------
        HostFaultError
            If AWS refuses, or if every zone was tried; the message names each.
        HostUnavailableError
            If AWS did not answer; the next call asks for the same launch again.
        """
        job.state.pop(WAITS_FOR, None)
        try:
            instance = instances.live_instance(self._job)
            if instance is not None:
                return self._resume(instance, job)
            return self._launch_somewhere(job)
        except Ec2Error as error:
            raise error.as_host_error() from error

    def is_ready(self, job: HostJob) -> bool:
        """Whether it runs, has an address and answers there with the pinned host key."""
        instance = self._instance()
        if instance is None:
            raise self._gone()
        view = self._look(instance)
        if view is None:
            return False
        if view.state != "running" or not view.address:
            return False
        instances.mark_running(instance, view.address)
        return self._ssh(instance).is_ready(job)

    def put(self, job: HostJob, files: Mapping[str, bytes]) -> None:
        """See ``Host``."""
        self._over_ssh(lambda host: host.put(job, files))

    def start(self, job: HostJob) -> None:
        """See ``Host``."""
        self._over_ssh(lambda host: host.start(job))

    def poll(self, job: HostJob) -> ProcessReport:
        """See ``Host``; a machine that AWS took back was interrupted, whether it was seen or not.

        In a job that is cleaned up, nothing runs on a machine that is gone or never was.
        """
        try:
            return self._over_ssh(lambda host: host.poll(job))
        except _InterruptedError as error:
            return ProcessReport(ProcessStatus.ENDED, None, str(error), is_interrupted=True)
        except _NoMachineError as error:
            if self._is_cleaning:
                return ProcessReport(ProcessStatus.ENDED, None, str(error))
            raise

    def fetch(self, job: HostJob, offset: int, maximum_bytes: int) -> bytes:
        """See ``Host``; nothing more where the machine is gone."""
        try:
            return self._over_ssh(lambda host: host.fetch(job, offset, maximum_bytes))
        except _NoMachineError:
            return b""

    def stop(self, job: HostJob, *, force: bool) -> None:
        """See ``Host``; nothing runs where the machine is gone."""
        try:
            self._over_ssh(lambda host: host.stop(job, force=force))
        except _NoMachineError:
            return

    def release(self, job: HostJob) -> bool:
        """Terminate; true only once EC2 says that it is terminated. To be tried for ever."""
        instance = self._instance()
        if instance is None:
            return True
        try:
            return end_instance(instance, self._api_of(instance.region))
        except Ec2Error as error:
            name = instance.instance_id or "the launch"
            report_trouble(instance, f"ALERT: cannot end {name}: {error}")
            raise HostUnavailableError(str(error)) from error

    # Launching -------------------------------------------------------------------------------

    def _resume(self, instance: CloudInstance, job: HostJob) -> bool:
        """Go on with what an earlier step has begun."""
        if instance.state == InstanceState.TERMINATING:
            end_instance(instance, self._api_of(instance.region))
            return False
        if instance.state != InstanceState.INTENDED:
            return True
        api = self._api_of(instance.region)
        if instance.asked_at is not None:
            view = api.find_by_token(instance.client_token)
            if view is not None:
                return record_launch(instance, view, api)
        return self._may_launch(job) and self._launch(instance)

    def _launch_somewhere(self, job: HostJob) -> bool:
        began = self._clock()
        if not self._may_launch(job):
            return False
        places = LaunchRound(self._job, self._api_of)
        while True:
            intent = places.next_intent()
            if self._clock() - began > NEXT_PLACE_SECONDS:
                return False
            try:
                instance = instances.write_intent(self._job, intent)
            except instances.IntentRefusedError:
                return False
            except LimitReachedError as error:
                if not error.may_wait:
                    raise
                job.state[WAITS_FOR] = error.message
                return False
            if self._launch(instance):
                return True

    def _may_launch(self, job: HostJob) -> bool:
        if settings.BENCHMARKS_ENABLED:
            return True
        job.state[WAITS_FOR] = "BENCHMARKS_ENABLED is off: nothing is launched until it is on."
        return False

    def _launch(self, instance: CloudInstance) -> bool:
        """Ask for the instance of an intent; false if another place has to be tried."""
        api = self._api_of(instance.region)
        user_data = stored_user_data(instance)
        was_asked_before = instance.asked_at is not None
        if not instances.mark_asked(instance):
            return False
        try:
            view = api.run(instance.request, user_data)
        except Ec2Error as error:
            return self._refused(instance, error, api, was_asked_before=was_asked_before)
        return record_launch(instance, view, api)

    def _refused(
        self, instance: CloudInstance, error: Ec2Error, api: Ec2Api, *, was_asked_before: bool
    ) -> bool:
        """Close an intent that AWS has refused, once it is sure that nothing came of it."""
        if error.error_class is ErrorClass.TRANSIENT:
            raise error.as_host_error()
        if was_asked_before or not error.is_certain:
            view = api.find_by_token(instance.client_token)
            if view is not None:
                # With the wrong parameters it is of no use, but it is ours, and will be ended.
                is_usable = record_launch(instance, view, api)
                if error.error_class is ErrorClass.BUG:
                    raise error.as_host_error()
                return is_usable
        if error.error_class is ErrorClass.BUG:
            raise error.as_host_error()
        instances.mark_refused(instance, str(error), error.code)
        if error.error_class in (ErrorClass.CAPACITY, ErrorClass.QUOTA, ErrorClass.USED_UP):
            return False
        raise error.as_host_error()

    # The machine -----------------------------------------------------------------------------

    @property
    def _is_cleaning(self) -> bool:
        return self._job.state == JobState.CLEANING

    def _instance(self) -> CloudInstance | None:
        return instances.live_instance(self._job)

    def _over_ssh(self, act: Callable[[Host], _Answer]) -> _Answer:
        """Do something on the machine; where that fails, see first whether it is still there.

        Its address may belong to another machine once it is gone, so that a wrong host key means
        nothing before EC2 has said that it still runs.
        """
        instance = self._instance()
        if instance is None:
            raise self._gone()
        if not instance.address:
            # It was given up before it could be used.
            raise _NoMachineError("The machine was not used.")
        try:
            return act(self._ssh(instance))
        except (HostUnavailableError, HostFaultError):
            self._look(instance)
            raise

    def _look(self, instance: CloudInstance) -> InstanceView | None:
        """What EC2 says of the machine, ``None`` where it may not show it yet.

        Raises ``_NoMachineError`` if it has ended or is ending.
        """
        try:
            view = self._api_of(instance.region).find(instance.instance_id)
        except Ec2Error as error:
            raise HostUnavailableError(str(error)) from error
        if view is None:
            if is_young(instance):
                return None
            instances.mark_lost(instance, "EC2 does not know it any more.")
            raise _NoMachineError(f"EC2 does not know {instance.instance_id} any more.")
        if view.is_alive:
            return view
        reason = view.reason or view.reason_code or "nobody says why"
        message = f"{instance.instance_id} is {view.state}: {reason}"
        if view.is_over:
            instances.mark_terminated(instance, reason, view.reason_code)
        if view.is_interrupted:
            raise _InterruptedError(message)
        raise _NoMachineError(message)

    def _gone(self) -> _NoMachineError:
        """What is said of the machine of a job that has none any more."""
        last = CloudInstance.objects.filter(job=self._job).order_by("-id").first()
        if last is None:
            return _NoMachineError("There is no machine.")
        kind = _InterruptedError if last.cloud_code == SPOT_REASON else _NoMachineError
        return kind(last.message)

    def _ssh(self, instance: CloudInstance) -> Host:
        keys = read_job_secret(self._job)
        return self._ssh_of(
            SshTarget(
                address=instance.address,
                port=settings.EC2_SSH_PORT,
                user=settings.EC2_USER,
                login_private_key=keys.login_private_key,
                host_public_key=keys.host_public_key,
                python=settings.EC2_PYTHON,
                watches_spot=instance.price_kind == Price.Kind.SPOT,
            )
        )


class _NoMachineError(HostFaultError):
    """The machine has ended, or is ending, or never was."""

    def __init__(self, message: str) -> None:
        super().__init__(HostFault.LAUNCH_LOST, message)


class _InterruptedError(_NoMachineError):
    """AWS has taken a spot machine back."""
