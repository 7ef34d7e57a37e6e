"""An installation of real processes for chaos tests: two workers and beat, Redis, PostgreSQL, a
played EC2 with a real SSH server for each instance.

This process looks at its database and plans jobs; steps are taken by the workers alone. Ended
workers are started again while somebody waits, as the supervisor of an installation would.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import connections, transaction
from django.db.utils import InterfaceError, OperationalError
from django.test import override_settings

from benchmarking.jobs.creation import create_job
from benchmarking.jobs.planner import plan_measurements
from benchmarking.models import (
    Architecture,
    BenchmarkJob,
    CloudInstance,
    IterationTiming,
    JobEvent,
    LayerTiming,
    Machine,
)
from benchmarking.probe.plan import StackRequest
from benchmarking.tests import factories
from benchmarking.tests.chaos.crash_points import Accident, plan_accident
from benchmarking.tests.chaos.servers import OwnPostgres, OwnRedis
from benchmarking.tests.cloud.local_cloud import INSTANCE_TYPE, REGION, LocalCloud
from benchmarking.tests.databases import other_database
from benchmarking.tests.hosts.metadata_service import MetadataService
from benchmarking.tests.processes import die_with_parent
from benchmarking.tests.sshd import FakeMachine

ROOT = Path(__file__).resolve().parents[3]
ROLES = ("worker-1", "worker-2", "beat")
INSTANCES = 16
WAIT_SECONDS = 180.0
MOST_RESTARTS = 30
_LIMITS = {
    "BENCHMARK_USD_PER_MONTH": Decimal(1000),
    "BENCHMARK_USD_PER_HOUR": Decimal(1000),
    "BENCHMARK_INSTANCES": INSTANCES,
    "BENCHMARK_INSTANCES_PER_REGION": INSTANCES,
}
HELD_AFTER = 2
TIMINGS_OF_A_JOB = 9
"""Three layers, two of them with three passes, and an iteration: what a job here measures."""


class ChaosSite:
    """A context manager; nothing of it runs after it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._batch_size = 0
        self.restarts = 0

    def __enter__(self) -> ChaosSite:
        with ExitStack() as stack:
            name = stack.enter_context(tempfile.TemporaryDirectory(prefix="epochcast-chaos-"))
            self.folder = Path(name)
            # PostgreSQL's own user has to come to its folder.
            self.folder.chmod(0o755)
            for part in ("postgres", "redis", "var", "accidents", "sleepers"):
                (self.folder / part).mkdir()
            self.accidents = self.folder / "accidents"
            self.postgres = OwnPostgres(self.folder / "postgres")
            self.redis = OwnRedis(self.folder / "redis")
            self.cloud = LocalCloud(self.folder / "machines")
            self.metadata = MetadataService()
            for server in (self.postgres, self.redis, self.cloud, self.metadata):
                stack.enter_context(server)
            stack.enter_context(other_database(self.postgres.url))
            money = {
                name: Decimal(value) if "USD" in name else value for name, value in _LIMITS.items()
            }
            stack.enter_context(override_settings(**money))
            call_command("migrate", verbosity=0)
            self._create_rows()
            stack.callback(self._stop_processes)
            for role in ROLES:
                self.start(role)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    # Processes -------------------------------------------------------------------------------

    def start(self, role: str) -> None:
        """Start a worker or beat."""
        concurrency = ("--concurrency", "2", "--queues", "bench")
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
        arguments = (
            ["beat", "--pidfile="]
            if role == "beat"
            else ["worker", "--hostname", f"{role}@here", *concurrency, *quiet]
        )
        with self.log_path(role).open("ab") as log:
            self._processes[role] = subprocess.Popen(
                [
                    *(sys.executable, "-m", "benchmarking.tests.chaos.process"),
                    *(str(self.accidents), self.metadata.url),
                    *(*arguments, "--loglevel", "warning"),
                ],
                cwd=ROOT,
                env={**os.environ, **self._environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def log_path(self, role: str) -> Path:
        """What the process has printed, its earlier lives included."""
        return self.folder / f"{role}.log"

    def kill(self, role: str) -> None:
        """Kill -9 a process and nothing that it has started; it comes back while one waits."""
        self._processes[role].kill()
        self._processes[role].wait()

    def pool_of(self, role: str) -> list[int]:
        """The processes of a worker that take steps."""
        parent = self._processes[role].pid
        path = Path(f"/proc/{parent}/task/{parent}/children")
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []

    def _supervise(self) -> None:
        for role, process in self._processes.items():
            if process.poll() is not None:
                _end_group(process)
                self.restarts += 1
                assert self.restarts < MOST_RESTARTS, self.log_path(role).read_text()[-3000:]
                self.start(role)

    def _stop_processes(self) -> None:
        for process in self._processes.values():
            _end_group(process)

    def _environment(self) -> Mapping[str, str]:
        return {
            **self.cloud.environment(self.folder / "var"),
            **{name: str(value) for name, value in _LIMITS.items()},
            "DATABASE_URL": self.postgres.url,
            "CELERY_BROKER_URL": self.redis.url,
            "DEPLOYMENT": "chaos",
            "DJANGO_SETTINGS_MODULE": "predictor_site.settings",
            "LOG_LEVEL": "WARNING",
            "SECRET_KEY": "only-for-tests",
        }

    # Jobs ------------------------------------------------------------------------------------

    def _create_rows(self) -> None:
        device = factories.create_device(slug="chaos-cpu", kind="cpu", memory_mib=None)
        self.machine: Machine = factories.create_machine(
            device=device, slug="chaos", instance_type=INSTANCE_TYPE, region=REGION
        )
        for kind in ("on-demand", "spot"):
            factories.create_price(
                machine=self.machine, kind=kind, region=REGION, usd_per_hour="0.170000"
            )
        factories.create_architecture(slug="tinynet")

    def create_job(self, accident: Accident | None = None, **values: Any) -> BenchmarkJob:
        """Queue a job with work of its own; a sweep finds it."""
        self._batch_size += 1
        plan = plan_measurements(
            machine=self.machine,
            stack=factories.create_stack().to_spec(),
            architectures=[Architecture.objects.get(slug="tinynet")],
            batch_sizes=[self._batch_size],
        )
        with transaction.atomic():
            job = create_job(
                machine=self.machine,
                plan=plan,
                stack=StackRequest(),
                host_kind=BenchmarkJob.HostKind.EC2,
                maximum_hours=0.5,
                **values,
            )
            if accident is not None:
                plan_accident(self.accidents, job.pk, accident)
        return job

    def machine_of(self, job: BenchmarkJob) -> FakeMachine:
        """The computer that is up for a job."""
        (launch,) = self.cloud.front.live(job.pk)
        return self.cloud.machines[launch.instance_id]

    @contextmanager
    def machines_with(self, **values: Any) -> Iterator[None]:
        """Let the machines launched meanwhile be others."""
        self.cloud.machine_values.update(values)
        try:
            yield
        finally:
            for name in values:
                del self.cloud.machine_values[name]

    def create_held_job(self, **values: Any) -> BenchmarkJob:
        """A job whose probe waits with two pieces of work done and stored."""
        with self.machines_with(environment={"FAKE_PROBE_HOLD_AFTER": str(HELD_AFTER)}):
            job = self.create_job(**values)
            self.wait_for_stored(job, HELD_AFTER)
        return job

    def let_go(self, job: BenchmarkJob) -> None:
        """Let a held probe go on."""
        (self.machine_of(job).run_folder(job.pk) / "go").touch()

    # Waiting and looking -----------------------------------------------------------------------

    def wait_until(
        self, condition: Callable[[], object], what: str, seconds: float = WAIT_SECONDS
    ) -> None:
        """Look again and again, starting what has ended, until ``condition`` holds."""
        end = time.monotonic() + seconds
        while True:
            self._supervise()
            try:
                if condition():
                    return
            except (InterfaceError, OperationalError):
                connections["default"].close()
            assert time.monotonic() < end, f"not {what}: {self.report()}"
            time.sleep(0.2)

    def wait_for_state(self, job: BenchmarkJob, *states: str) -> BenchmarkJob:
        """The job, once it is in one of the states."""
        jobs = BenchmarkJob.objects.filter(pk=job.pk, state__in=states)
        self.wait_until(jobs.exists, f"{' or '.join(states)}")
        return jobs.get()

    def wait_for_stored(self, job: BenchmarkJob, pieces: int) -> None:
        """Wait until so many pieces of work are stored."""
        jobs = BenchmarkJob.objects.filter(pk=job.pk, stored_count__gte=pieces)
        self.wait_until(jobs.exists, f"{pieces} pieces of work stored")

    def finish(self, job: BenchmarkJob) -> BenchmarkJob:
        """The job after its end."""
        return self.wait_for_state(job, *BenchmarkJob.FINAL_STATES)

    def report(self) -> str:
        """Where the unfinished jobs and the newest one are, and what happened to one of them."""
        unfinished = BenchmarkJob.objects.exclude(state__in=BenchmarkJob.FINAL_STATES)
        newest = BenchmarkJob.objects.latest("created_at")
        shown = unfinished.first() or newest
        lines = [f"{job.pk} {job.state} {job.stored_count}" for job in [*unfinished[:20], newest]]
        events = JobEvent.objects.filter(job=shown).order_by("pk")
        lines += [f"  {event.at:%H:%M:%S} {event.new_state} {event.message}" for event in events]
        return "\n".join(lines)


def check_nothing_is_lost(site: ChaosSite, *jobs: BenchmarkJob) -> None:
    """Every job succeeded with each timing once, and no instance is live."""
    rows = BenchmarkJob.objects.filter(pk__in=[job.pk for job in jobs])
    assert set(rows.values_list("state", "reason")) == {("succeeded", "completed")}
    assert timing_counts(jobs) == [TIMINGS_OF_A_JOB] * len(jobs)
    check_nothing_lives(site)


def check_nothing_lives(site: ChaosSite) -> None:
    """No instance is live in the cloud or in the books, and no job had two at once."""
    assert site.cloud.front.live() == []
    assert site.cloud.machines == {}
    assert CloudInstance.objects.filter(state__in=CloudInstance.LIVE_STATES).count() == 0
    assert site.cloud.front.most_live_of_a_job == 1


def timing_counts(jobs: Iterable[BenchmarkJob]) -> list[int]:
    """The timings of each job, in its order; two for the same work count twice."""
    return [
        LayerTiming.objects.filter(run__job=job).count()
        + IterationTiming.objects.filter(run__job=job).count()
        for job in jobs
    ]


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
