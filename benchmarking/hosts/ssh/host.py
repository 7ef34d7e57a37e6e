"""A machine over SSH: the probe runs there detached, and each call is a connection of its own.

Losing the connection is not losing the run: SSH starts, looks and fetches, and everything else
happens on the machine, in the folder ``epochcast/<job>`` of the user's home. What lies there is
as on this computer, see ``hosts.launcher``, and stays there when the place is given back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from benchmarking.hosts.base import (
    HostFault,
    HostFaultError,
    HostJob,
    HostUnavailableError,
    ProcessReport,
    ProcessStatus,
)
from benchmarking.hosts.launcher import Look
from benchmarking.hosts.ssh import scripts
from benchmarking.hosts.ssh.connection import (
    CALL_SECONDS,
    CONNECT_SECONDS,
    Answer,
    SshConnection,
    SshTarget,
)

MINIMUM_FREE_KIB = 64 * 1024
"""What must be free before a probe is started; its results take some MB."""
_FULL_BELOW_KIB = 256
_WATCHER_PATH = Path(__file__).with_name(scripts.WATCHER_FILE)
_FULL_DISK_WORDS = ("No space left on device", "Disk quota exceeded", "File too large")
_NO_LOOK = Look("", None, "", "", list, "", "")


class SshHost:
    """Runs probes on ``target``; follows ``hosts.base.Host``.

    Parameters
    ----------
    connect_timeout
        Seconds for each of connecting, the key exchange, logging in and opening a channel.
    call_seconds
        Seconds for a whole call; then it raises ``HostUnavailableError``.
    """

    def __init__(
        self,
        target: SshTarget,
        connect_timeout: float = CONNECT_SECONDS,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        self.target = target
        self._connect_timeout = connect_timeout
        self._call_seconds = call_seconds

    def acquire(self, job: HostJob) -> bool:
        """Nothing to ask for: the machine is there, or ``is_ready`` says that it is not."""
        return True

    def is_ready(self, job: HostJob) -> bool:
        """Whether it answers; raises ``HostFaultError`` if it answers and cannot be used."""
        try:
            with self._connection() as connection:
                connection.run("exit 0")
        except HostUnavailableError:
            return False
        return True

    def put(self, job: HostJob, files: Mapping[str, bytes]) -> None:
        """Write files by name; each appears whole or not at all."""
        with self._connection() as connection:
            for name, content in files.items():
                self._put(connection, job, name, content)

    def start(self, job: HostJob) -> None:
        """Start the probe in a session of its own, unless it was started before."""
        target = self.target
        with self._connection() as connection:
            arguments = None
            if target.watches_spot:
                self._put(connection, job, scripts.WATCHER_FILE, _WATCHER_PATH.read_bytes())
                arguments = [target.metadata_url, str(target.spot_poll_seconds)]
            answer = connection.run(
                scripts.start_script(self._folder(job), target.python, MINIMUM_FREE_KIB, arguments)
            )
        if answer.exit_code != 0:
            raise self._fault("the probe cannot be started", answer)

    def poll(self, job: HostJob) -> ProcessReport:
        """Whether the probe runs; its exit code is what the shell wrote down."""
        with self._connection() as connection:
            look, free_kib = self._look(connection, job)
        report = look.report()
        ended_badly = report.status is ProcessStatus.ENDED and report.exit_code != 0
        is_full = free_kib < _FULL_BELOW_KIB or _says_full(report.errors)
        return replace(report, is_disk_full=ended_badly and is_full)

    def fetch(self, job: HostJob, offset: int, maximum_bytes: int) -> bytes:
        """What the probe has printed from byte ``offset`` on; only that is transferred."""
        script = scripts.fetch_script(self._folder(job), offset, maximum_bytes)
        with self._connection() as connection:
            return connection.run(script, maximum_bytes=maximum_bytes).output

    def stop(self, job: HostJob, *, force: bool) -> None:
        """Signal the process group of the probe if it is still the one that was started."""
        with self._connection() as connection:
            look, _ = self._look(connection, job)
            identity = look.running()
            # A second signal may hit the probe while it ends.
            if identity is not None and (force or not look.is_interrupted):
                connection.run(scripts.stop_script(identity.pid, force=force))

    def release(self, job: HostJob) -> bool:
        """True once no probe of the job runs or can be started; the folder stays.

        True as well where the machine does not let us in any more: whatever it runs is none of
        ours to end.
        """
        try:
            with self._connection() as connection:
                connection.run(scripts.release_script(self._folder(job)))
                look, _ = self._look(connection, job)
        except HostFaultError as error:
            if error.fault in (HostFault.HOST_KEY, HostFault.LOGIN):
                return True
            raise
        return look.may_release()

    def check(self) -> str:
        """Log in and look around: what is there, in a sentence.

        Raises as the other calls do, and ``HostFaultError`` if there is no such interpreter.
        """
        with self._connection() as connection:
            answer = connection.run(scripts.check_script(self.target.python))
        if answer.exit_code != 0:
            raise self._fault("the interpreter cannot be used", answer)
        *_, version, torch, free_kib = answer.text.split()
        found = "with torch" if torch == "yes" else "WITHOUT torch, which the probe needs"
        return (
            f"logged in as {self.target.place}; {self.target.python} is Python {version} "
            f"{found}; {int(free_kib) // 1024} MiB are free"
        )

    def _connection(self) -> SshConnection:
        return SshConnection(self.target, self._connect_timeout, self._call_seconds)

    def _folder(self, job: HostJob) -> str:
        return f"{self.target.folder}/{job.id}"

    def _put(self, connection: SshConnection, job: HostJob, name: str, content: bytes) -> None:
        script = scripts.put_script(self._folder(job), name, len(content))
        answer = connection.run(script, stdin=content)
        if answer.exit_code != 0:
            raise self._fault(f"{name} cannot be written", answer)

    def _look(self, connection: SshConnection, job: HostJob) -> tuple[Look, int]:
        script = scripts.look_script(self._folder(job))
        answer = connection.run(script, maximum_bytes=scripts.LOOK_BYTES)
        if answer.exit_code == scripts.LACKS_FOLDER:
            return _NO_LOOK, MINIMUM_FREE_KIB
        try:
            return scripts.read_look(answer.output)
        except ValueError:
            raise HostUnavailableError(
                f"{self.target.place} says of the probe only: {answer.text[:500]!r}"
            ) from None

    def _fault(self, what: str, answer: Answer) -> HostFaultError:
        is_full = answer.exit_code == scripts.LACKS_SPACE or _says_full(answer.text)
        fault = HostFault.DISK_FULL if is_full else HostFault.SETUP
        said = answer.text[:500] or f"exit code {answer.exit_code}"
        return HostFaultError(fault, f"{self.target.place}: {what}: {said}")


def _says_full(message: str) -> bool:
    return any(words in message for words in _FULL_DISK_WORDS)
