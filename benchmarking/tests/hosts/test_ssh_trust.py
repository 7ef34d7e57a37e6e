"""Who is talked to, and with which key: against a real SSH server."""

from __future__ import annotations

import base64
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from benchmarking.hosts.base import HostFault, HostFaultError, HostJob
from benchmarking.hosts.keys import KeyPair, fingerprint, make_key_pair, read_private_key
from benchmarking.hosts.ssh import SshHost, SshTarget
from benchmarking.tests.sshd import FakeMachine

pytestmark = pytest.mark.sshd

JOB = HostJob(uuid.UUID(int=1))
CALLS: list[Callable[[SshHost], object]] = [
    lambda host: host.is_ready(JOB),
    lambda host: host.put(JOB, {"plan.json": b"{}"}),
    lambda host: host.start(JOB),
    lambda host: host.poll(JOB),
    lambda host: host.fetch(JOB, 0, 100),
    lambda host: host.stop(JOB, force=True),
    lambda host: host.check(),
]


def pair_of(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> KeyPair:
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return read_private_key(pem.decode())


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[FakeMachine]:
    with FakeMachine(tmp_path / "machine") as machine:
        yield machine


def host_of(machine: FakeMachine, **changes: object) -> SshHost:
    return SshHost(SshTarget(**machine.target_values(**changes)))


def fault_of(call: Callable[[SshHost], object], host: SshHost) -> HostFaultError:
    with pytest.raises(HostFaultError) as info:
        call(host)
    return info.value


def test_r7_another_host_key_ends_every_call_and_nothing_is_executed(machine: FakeMachine) -> None:
    host = host_of(machine)
    swapped = machine.swap_host_key()

    faults = [fault_of(call, host) for call in CALLS]

    assert {fault.fault for fault in faults} == {HostFault.HOST_KEY}
    assert faults[0].message == (
        f"{machine.user}@127.0.0.2:{machine.port} has the host key "
        f"{fingerprint(swapped.public_key)}; only {fingerprint(machine.host_keys.public_key)} "
        "is accepted, and nothing was sent there"
    )
    assert machine.commands == []
    assert "Accepted" not in machine.log
    assert "publickey" not in machine.log


def test_r7_place_of_a_stranger_is_given_back_untouched(machine: FakeMachine) -> None:
    host = host_of(machine)
    machine.swap_host_key()

    assert host.release(JOB)
    assert machine.commands == []


def test_r7_host_key_of_another_type_is_not_even_negotiated(machine: FakeMachine) -> None:
    pinned = pair_of(ec.generate_private_key(ec.SECP256R1())).public_key
    host = host_of(machine, host_public_key=pinned)

    fault = fault_of(CALLS[0], host)

    assert fault.fault is HostFault.HOST_KEY
    assert "has no host key of type ecdsa-sha2-nistp256" in fault.message
    assert machine.commands == []


class _Thief(paramiko.Ed25519Key):
    """Shows the public half of a key of which it has not the private one."""

    stolen = b""

    def asbytes(self) -> bytes:
        return self.stolen


def test_r7_public_half_alone_does_not_pass_for_the_host(machine: FakeMachine) -> None:
    pinned = make_key_pair()
    own = machine.folder / "own_key"
    own.write_text(make_key_pair().private_key)
    thief = _Thief(filename=str(own))
    body = pinned.public_key.split()[1]
    thief.stolen = paramiko.PKey.from_type_string("ssh-ed25519", base64.b64decode(body)).asbytes()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            sock, _ = listener.accept()
            transport = paramiko.Transport(sock)
            transport.add_server_key(thief)
            transport.start_server(event=threading.Event(), server=paramiko.ServerInterface())

        threading.Thread(target=serve, daemon=True).start()
        host = host_of(
            machine,
            address="127.0.0.1",
            port=listener.getsockname()[1],
            host_public_key=pinned.public_key,
        )
        fault = fault_of(CALLS[0], host)

    assert fault.fault is HostFault.HOST_KEY
    assert "cannot prove its host key" in fault.message


@pytest.mark.parametrize(
    "keys",
    [
        make_key_pair(),
        pair_of(rsa.generate_private_key(public_exponent=65537, key_size=2048)),
        pair_of(ec.generate_private_key(ec.SECP384R1())),
    ],
    ids=["ed25519", "rsa", "ecdsa"],
)
def test_keys_of_each_accepted_kind_open_the_machine(tmp_path: Path, keys: KeyPair) -> None:
    with FakeMachine(
        tmp_path / "machine", host_keys=keys, authorized_key=keys.public_key
    ) as machine:
        assert host_of(machine, login_private_key=keys.private_key).is_ready(JOB)


def test_r8_refused_login_ends_every_call(machine: FakeMachine) -> None:
    host = host_of(machine, login_private_key=make_key_pair().private_key)

    faults = [fault_of(call, host) for call in CALLS]

    assert {fault.fault for fault in faults} == {HostFault.LOGIN}
    assert faults[0].message == (
        f"{machine.user}@127.0.0.2:{machine.port} refuses the login key; it must be in the "
        "authorized_keys of that user, and be enough to log in"
    )
    assert machine.commands == []
    assert host.release(JOB)


def test_r8_no_key_of_the_workers_home_or_agent_is_offered(
    machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / ".ssh"
    keys.mkdir()
    (keys / "id_ed25519").write_text(machine.login_keys.private_key)
    monkeypatch.setenv("HOME", str(tmp_path))
    agent = socket.socket(socket.AF_UNIX)
    agent.bind(str(tmp_path / "agent"))
    agent.listen()
    agent.settimeout(0)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    host = host_of(machine, login_private_key=make_key_pair().private_key)

    assert fault_of(CALLS[0], host).fault is HostFault.LOGIN

    with pytest.raises(BlockingIOError):
        agent.accept()
    agent.close()


def test_damaged_login_key_is_told_from_a_refused_one(machine: FakeMachine) -> None:
    broken = machine.login_keys.private_key[:-80]

    fault = fault_of(CALLS[0], host_of(machine, login_private_key=broken))

    assert fault.fault is HostFault.LOGIN
    assert "cannot be used: this is no private key" in fault.message
    assert machine.login_keys.private_key.splitlines()[1] not in fault.message


def test_r8_target_hides_its_login_key(machine: FakeMachine) -> None:
    host = host_of(machine)

    assert "PRIVATE KEY" in host.target.login_private_key
    assert "PRIVATE KEY" not in f"{host.target!r} {host.target} {host!r}"
