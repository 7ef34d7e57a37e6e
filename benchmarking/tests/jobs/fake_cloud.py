"""A cloud in memory, with the books of the real one: rows of instances, reservations, costs.

Its machines measure at once what they are told to, and a test can let a worker die at every
named point between two effects.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from django.utils import timezone

from benchmarking.hosts.base import (
    HostFault,
    HostFaultError,
    HostJob,
    HostUnavailableError,
    ProcessReport,
    ProcessStatus,
)
from benchmarking.jobs import instances
from benchmarking.jobs.deadlines import instance_expiry
from benchmarking.jobs.instances import IntentRefusedError, LaunchIntent
from benchmarking.models import BenchmarkJob, CloudInstance
from benchmarking.tests.jobs.fake_host import ProcessDeath

REGION = "us-east-1"
CRASH_POINTS = (
    "before intent",
    "after intent",
    "after launch",
    "after launch is written",
    "before start",
    "after start",
    "before poll",
    "after fetch",
    "before terminate",
    "after terminate",
    "after end is written",
)


@dataclass(slots=True)
class FakeInstance:
    """A machine of the cloud, and what its probe has printed."""

    id: str
    token: str
    launched_at: datetime
    expires_at: datetime
    ended_at: datetime | None = None
    is_interrupted: bool = False
    report: ProcessReport = field(default_factory=lambda: ProcessReport(ProcessStatus.NOT_STARTED))
    output: bytes = b""

    @property
    def is_live(self) -> bool:
        """Whether it costs money."""
        return self.ended_at is None

    def cost(self, usd_per_hour: Decimal, now: datetime) -> Decimal:
        """What the provider charges for it until now."""
        lifetime = (self.ended_at or now) - self.launched_at
        return usd_per_hour * Decimal(lifetime / timedelta(hours=1))


class FakeCloud:
    """All machines of a cloud.

    Parameters
    ----------
    output
        What a probe prints as soon as it is started.
    rest
        What it prints when it is done, which is at once unless a test waits for it.
    """

    def __init__(
        self, output: bytes, *, rest: bytes | None = None, usd_per_hour: Decimal = Decimal(1)
    ) -> None:
        self.output = output
        self.usd_per_hour = usd_per_hour
        self.rest = rest
        self.instances: dict[str, FakeInstance] = {}
        self.most_live = 0
        self.launches = 0
        self.crash_at = ""
        self.error: Exception | None = None
        self.launch_error: Exception | None = None
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def reach(self, point: str) -> None:
        """Die here if a test wants that."""
        if self.crash_at == point:
            self.crash_at = ""
            raise ProcessDeath(point)

    def answer(self) -> None:
        """Fail once if a test wants that."""
        error, self.error = self.error, None
        if error is not None:
            raise error

    @property
    def live(self) -> list[FakeInstance]:
        """What costs money now."""
        return [instance for instance in self.instances.values() if instance.is_live]

    def by_token(self, token: str) -> FakeInstance | None:
        """The instance of a launch."""
        return next((i for i in self.instances.values() if i.token == token), None)

    def run(self, token: str, expires_at: datetime) -> FakeInstance:
        """Launch; the same token gives the same instance."""
        self.answer()
        launch_error, self.launch_error = self.launch_error, None
        if launch_error is not None:
            raise launch_error
        with self._lock:
            found = self.by_token(token)
            if found is None:
                found = FakeInstance(
                    f"i-{next(self._numbers):06d}", token, timezone.now(), expires_at
                )
                self.instances[found.id] = found
                self.launches += 1
                self.most_live = max(self.most_live, len(self.live))
            return found

    def terminate(self, instance_id: str) -> None:
        """End a machine."""
        self.answer()
        with self._lock:
            self._end(self.instances[instance_id], timezone.now())

    def let_time_pass(self) -> None:
        """Machines past their time switch themselves off."""
        now = timezone.now()
        for instance in self.live:
            if now > instance.expires_at:
                self._end(instance, instance.expires_at)

    def interrupt_all(self) -> None:
        """Take every machine away."""
        for instance in self.live:
            self._end(instance, timezone.now())
            instance.is_interrupted = True

    def let_probes_finish(self) -> None:
        """Let every probe that runs print the rest and end."""
        for instance in self.live:
            if instance.report.status is ProcessStatus.RUNNING:
                instance.output += self.rest or b""
                instance.report = ProcessReport(ProcessStatus.ENDED, 0)

    def _end(self, instance: FakeInstance, at: datetime) -> None:
        if instance.ended_at is None:
            instance.ended_at = at


class FakeCloudHost:
    """Follows ``hosts.base.Host`` for one job, as ``Ec2Host`` does for a real cloud."""

    def __init__(self, job: BenchmarkJob, cloud: FakeCloud) -> None:
        self._job = job
        self._cloud = cloud

    def acquire(self, job: HostJob) -> bool:
        cloud = self._cloud
        row = instances.live_instance(self._job)
        if row is None:
            cloud.reach("before intent")
            try:
                row = instances.write_intent(self._job, self._intent())
            except IntentRefusedError:
                return False
            cloud.reach("after intent")
        if row.state == CloudInstance.State.INTENDED:
            if not instances.mark_asked(row):
                return False
            machine = cloud.run(row.client_token, row.expires_at)
            cloud.reach("after launch")
            if not instances.mark_launched(
                row, instance_id=machine.id, zone=row.zone, launched_at=machine.launched_at
            ):
                cloud.terminate(machine.id)
                return False
            cloud.reach("after launch is written")
        return True

    def is_ready(self, job: HostJob) -> bool:
        row = self._row()
        self._machine(row)
        instances.mark_running(row, "127.0.0.2")
        return True

    def put(self, job: HostJob, files: Mapping[str, bytes]) -> None:
        self._machine(self._row())

    def start(self, job: HostJob) -> None:
        machine = self._machine(self._row())
        self._cloud.reach("before start")
        if machine.report.status is ProcessStatus.NOT_STARTED:
            machine.output = self._cloud.output
            machine.report = (
                ProcessReport(ProcessStatus.ENDED, 0)
                if self._cloud.rest is None
                else ProcessReport(ProcessStatus.RUNNING)
            )
        self._cloud.reach("after start")

    def poll(self, job: HostJob) -> ProcessReport:
        self._cloud.reach("before poll")
        self._cloud.answer()
        row = instances.live_instance(self._job)
        machine = None if row is None else self._cloud.instances.get(row.instance_id)
        if machine is None:
            return ProcessReport(ProcessStatus.ENDED)
        if not machine.is_live:
            return ProcessReport(ProcessStatus.ENDED, is_interrupted=machine.is_interrupted)
        return machine.report

    def fetch(self, job: HostJob, offset: int, maximum_bytes: int) -> bytes:
        row = instances.live_instance(self._job)
        machine = None if row is None else self._cloud.instances.get(row.instance_id)
        data = b"" if machine is None or not machine.is_live else machine.output[offset:]
        self._cloud.reach("after fetch")
        return data[:maximum_bytes]

    def stop(self, job: HostJob, *, force: bool) -> None:
        self._machine(self._row()).report = ProcessReport(ProcessStatus.ENDED, 0)

    def release(self, job: HostJob) -> bool:
        row = instances.live_instance(self._job)
        return row is None or end_row(row, self._cloud)

    def _intent(self) -> LaunchIntent:
        now = timezone.now()
        job = self._job
        attempt = job.instances.count() + 1
        expires_at = instance_expiry(job)
        return LaunchIntent(
            attempt=attempt,
            region=REGION,
            zone=f"{REGION}a",
            instance_type=job.machine.instance_type,
            price_kind=job.price_kind,
            client_token=hashlib.sha256(f"{job.pk} {attempt}".encode()).hexdigest(),
            request={},
            user_data_sha256="0" * 64,
            usd_per_hour=self._cloud.usd_per_hour,
            intended_at=now,
            expires_at=expires_at,
        )

    def _row(self) -> CloudInstance:
        row = instances.live_instance(self._job)
        if row is None:
            raise HostFaultError(HostFault.LAUNCH_LOST, "There is no machine.")
        return row

    def _machine(self, row: CloudInstance) -> FakeInstance:
        machine = self._cloud.instances[row.instance_id]
        if not machine.is_live:
            raise HostFaultError(HostFault.LAUNCH_LOST, f"{machine.id} is terminated.")
        return machine


def end_row(row: CloudInstance, cloud: FakeCloud) -> bool:
    """End the machine of a row, if it has one, and close its books; true once that is done."""
    if row.state == CloudInstance.State.INTENDED:
        machine = cloud.by_token(row.client_token)
        if machine is None:
            instances.mark_never_made(row)
            return True
        instances.mark_launched(
            row, instance_id=machine.id, zone=row.zone, launched_at=machine.launched_at
        )
    instances.mark_terminating(row)
    cloud.reach("before terminate")
    cloud.terminate(row.instance_id)
    cloud.reach("after terminate")
    instances.mark_terminated(row)
    cloud.reach("after end is written")
    return True


def reap(cloud: FakeCloud) -> None:
    """What the reaper does, on the cloud in memory."""
    now = timezone.now()
    try:
        for row in CloudInstance.objects.filter(state__in=CloudInstance.LIVE_STATES):
            if now > row.expires_at or row.job.is_final:
                end_row(row, cloud)
        known = set(CloudInstance.objects.values_list("client_token", flat=True))
        for machine in cloud.live:
            if machine.token not in known:
                cloud.terminate(machine.id)
    except HostUnavailableError:
        return
