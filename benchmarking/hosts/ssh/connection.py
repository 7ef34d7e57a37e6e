"""One SSH connection to a machine whose host key is known, bounded in time and in output.

Nothing is sent to a machine that does not prove the pinned host key, and no key of the agent or
of the user's home is ever offered. Whatever the other side does, a connection ends by itself.
"""

from __future__ import annotations

import base64
import io
import shlex
import socket
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType

import paramiko

from benchmarking.hosts.base import HostFault, HostFaultError, HostUnavailableError
from benchmarking.hosts.keys import WrongKeyError, fingerprint, read_private_key

CONNECT_SECONDS = 10.0
"""How long each of connecting, the key exchange, logging in and opening a channel may take."""
CALL_SECONDS = 45.0
"""How long a connection may last with all that is done on it: less than a step's lease."""
_MARK = b"epochcast:\n"
# What a login shell may print of its own before the command.
_NOISE_BYTES = 65_536
_MESSAGE_BYTES = 16_384
_CHUNK_BYTES = 65_536
_PRIVATE_KEY_CLASSES: dict[str, type[paramiko.PKey]] = {
    "ssh-ed25519": paramiko.Ed25519Key,
    "ssh-rsa": paramiko.RSAKey,
}
# An RSA key signs in two ways that are still safe; the others are named like their key.
_SIGNATURES = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


@dataclass(frozen=True, slots=True)
class SshTarget:
    """Where and how to log in.

    Parameters
    ----------
    login_private_key
        PEM, without a passphrase; the only key that is offered.
    host_public_key
        Type and key, as in ``authorized_keys``; the only one that is accepted.
    python
        The interpreter that runs the probe: a name on the search path, or an absolute path.
    folder
        Where the folders of jobs are made; relative to the user's home.
    watches_spot
        Whether the machine may be taken away by the cloud, which its metadata service tells.
    metadata_url
        Where that service answers, as seen from the machine; replaced by tests.
    spot_poll_seconds
        How often that is looked at.
    """

    address: str
    port: int
    user: str
    login_private_key: str = field(repr=False)
    host_public_key: str
    python: str = "python3"
    folder: str = "epochcast"
    watches_spot: bool = False
    metadata_url: str = "http://169.254.169.254"
    spot_poll_seconds: float = 5.0

    @property
    def place(self) -> str:
        """Who is meant, in words for an operator."""
        return f"{self.user}@{self.address}:{self.port}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a script left with, and what it printed."""

    exit_code: int
    output: bytes

    @property
    def text(self) -> str:
        """What it printed, as one line for an operator."""
        return " ".join(self.output.decode(errors="replace").split())


class SshConnection:
    """A context manager: connected and logged in while it is open.

    Parameters
    ----------
    connect_timeout
        Seconds for each of: connecting, the banner and the key exchange, logging in, opening a
        channel.
    call_seconds
        Seconds for everything together; then the connection is cut.

    Raises
    ------
    HostUnavailableError
        On entering or in ``run``, if nobody answers, or no longer.
    HostFaultError
        If another host key answers (nothing is sent there), or the login is refused.
    """

    def __init__(self, target: SshTarget, connect_timeout: float, call_seconds: float) -> None:
        self._target = target
        self._connect_timeout = connect_timeout
        self._end = time.monotonic() + call_seconds
        self._client = paramiko.SSHClient()
        self._client.set_missing_host_key_policy(paramiko.RejectPolicy())
        # Some of paramiko's waits have no limit of their own.
        self._cutter = threading.Timer(call_seconds, self._client.close)
        self._cutter.daemon = True

    def __enter__(self) -> SshConnection:
        """Connect, check the host key, log in."""
        self._cutter.start()
        try:
            self._connect()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Cut the connection; what was started detached goes on."""
        self._close()

    def run(
        self, script: str, *, stdin: bytes = b"", maximum_bytes: int = _MESSAGE_BYTES
    ) -> Answer:
        """Run a POSIX shell script in the user's home and wait for its end.

        Raises ``HostFaultError`` if no shell runs it, or if it prints more than
        ``maximum_bytes``, which are then dropped.
        """
        try:
            exit_code, output = self._execute(
                f"exec /bin/sh -c {shlex.quote(_preamble() + script)}",
                stdin,
                len(_MARK) + _NOISE_BYTES + maximum_bytes,
            )
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise self._unavailable(error) from None
        noise, mark, output = output.partition(_MARK)
        if not mark:
            if exit_code < 0:
                raise self._unavailable(EOFError("the connection was lost"))
            said = " ".join(noise[:500].decode(errors="replace").split())
            raise HostFaultError(
                HostFault.SETUP,
                f"{self._target.place} runs no commands in a shell; it answers: {said!r}",
            )
        if len(output) > maximum_bytes:
            raise HostFaultError(
                HostFault.SETUP,
                f"{self._target.place} prints more than {maximum_bytes} bytes as an answer",
            )
        if exit_code < 0:
            raise self._unavailable(EOFError("the connection was lost"))
        return Answer(exit_code, output)

    def _execute(self, command: str, stdin: bytes, maximum_bytes: int) -> tuple[int, bytes]:
        transport = self._client.get_transport()
        if transport is None:
            raise EOFError("the connection was lost")
        channel = transport.open_session(timeout=self._timeout())
        try:
            channel.settimeout(self._remaining())
            channel.exec_command(command)
            try:
                channel.sendall(stdin)
                channel.shutdown_write()
            except OSError:
                # It ended before it had read everything, and what it printed says why.
                pass
            output = bytearray()
            while len(output) <= maximum_bytes:
                channel.settimeout(self._remaining())
                chunk = channel.recv(_CHUNK_BYTES)
                if not chunk:
                    break
                output += chunk
            else:
                return 0, bytes(output)
            if not channel.status_event.wait(self._remaining()):
                raise TimeoutError("it does not say how the command ended")
            return channel.exit_status, bytes(output)
        finally:
            channel.close()

    def _connect(self) -> None:
        target = self._target
        try:
            login_key = _private_key(target.login_private_key)
        except WrongKeyError as error:
            raise HostFaultError(
                HostFault.LOGIN, f"the login key for {target.place} cannot be used: {error}"
            ) from None
        kind, body = target.host_public_key.split()[:2]
        name = target.address if target.port == 22 else f"[{target.address}]:{target.port}"
        pinned = paramiko.PKey.from_type_string(kind, base64.b64decode(body))
        self._client.get_host_keys().add(name, kind, pinned)

        def transport_of(sock: socket.socket, **options: object) -> paramiko.Transport:
            # Short messages go to and fro, which must not wait for each other's acknowledgement.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transport = paramiko.Transport(sock, **options)
            transport.get_security_options().key_types = _SIGNATURES.get(kind, (kind,))
            return transport

        try:
            self._client.connect(
                target.address,
                target.port,
                target.user,
                pkey=login_key,
                allow_agent=False,
                look_for_keys=False,
                timeout=self._timeout(),
                banner_timeout=self._timeout(),
                auth_timeout=self._timeout(),
                channel_timeout=self._timeout(),
                transport_factory=transport_of,
            )
        except paramiko.BadHostKeyException as error:
            answered = fingerprint(f"{error.key.get_name()} {error.key.get_base64()}")
            raise self._wrong_host_key(f"has the host key {answered}") from None
        except paramiko.IncompatiblePeer as error:
            if "host key" in str(error):
                raise self._wrong_host_key(f"has no host key of type {kind}") from None
            raise HostFaultError(
                HostFault.SETUP, f"the SSH server at {target.place} is too old: {error}"
            ) from None
        except (paramiko.SSHException, OSError, EOFError) as error:
            if "Signature verification" in str(error):
                raise self._wrong_host_key("cannot prove its host key") from None
            if self._is_refusal(error):
                raise self._login_refused() from None
            raise self._unavailable(error) from None
        transport = self._client.get_transport()
        if transport is None or not transport.is_authenticated():
            raise self._login_refused()

    def _is_refusal(self, error: Exception) -> bool:
        """Whether the other side said no to the key, and did not just go away or keep silent."""
        transport = self._client.get_transport()
        if transport is None or not transport.is_active() or "timeout" in str(error).lower():
            return False
        asks_for_more = "No authentication methods available" in str(error)
        return isinstance(error, paramiko.AuthenticationException) or asks_for_more

    def _login_refused(self) -> HostFaultError:
        return HostFaultError(
            HostFault.LOGIN,
            f"{self._target.place} refuses the login key; it must be in the authorized_keys of "
            "that user, and be enough to log in",
        )

    def _wrong_host_key(self, what: str) -> HostFaultError:
        pinned = fingerprint(self._target.host_public_key)
        return HostFaultError(
            HostFault.HOST_KEY,
            f"{self._target.place} {what}; only {pinned} is accepted, and nothing was sent there",
        )

    def _unavailable(self, error: Exception) -> HostUnavailableError:
        if time.monotonic() >= self._end:
            return HostUnavailableError(f"{self._target.place} did not answer in time")
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return HostUnavailableError(f"{self._target.place} does not answer: {said}")

    def _timeout(self) -> float:
        return min(self._connect_timeout, self._remaining())

    def _remaining(self) -> float:
        return max(0.01, self._end - time.monotonic())

    def _close(self) -> None:
        self._cutter.cancel()
        self._client.close()


def _preamble() -> str:
    # A login shell may print a greeting, so the answer begins behind a mark; messages are in
    # English, for they are looked through; nobody else there may read what is written.
    return "exec 2>&1; export LC_ALL=C; umask 077; echo epochcast:\n"


def _private_key(pem: str) -> paramiko.PKey:
    pair = read_private_key(pem)
    key_class = _PRIVATE_KEY_CLASSES.get(pair.public_key.split()[0], paramiko.ECDSAKey)
    key: paramiko.PKey = key_class.from_private_key(io.StringIO(pair.private_key))
    return key
