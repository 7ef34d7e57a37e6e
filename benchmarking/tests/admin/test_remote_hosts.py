"""Remote hosts in the admin: keys are checked, the private one never comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.contrib.admin.models import LogEntry
from django.test import Client, override_settings
from django.urls import reverse

from benchmarking.hosts.keys import fingerprint, make_key_pair, read_private_key
from benchmarking.jobs.secrets import decrypt_key, encrypt_key
from benchmarking.models import Machine, RemoteHost
from benchmarking.tests import factories
from benchmarking.tests.sshd import FakeMachine

pytestmark = pytest.mark.django_db

LOGIN, HOST = make_key_pair(), make_key_pair()
LIST = "admin:benchmarking_remotehost_changelist"


@pytest.fixture
def machine() -> Machine:
    return factories.create_machine(slug="own-gpu")


def entered(machine: Machine, **values: Any) -> dict[str, Any]:
    """What somebody writes into the form."""
    return {
        "name": "gpu-box",
        "machine": machine.pk,
        "address": "gpu.example",
        "port": 22,
        "user": "ubuntu",
        "host_public_key": f"gpu.example {HOST.public_key} root@gpu",
        "private_key": LOGIN.private_key,
        "python": "python3",
        "is_enabled": "on",
        **values,
    }


def add(client: Client, machine: Machine, **values: Any) -> str:
    """The page after sending the form."""
    url = reverse("admin:benchmarking_remotehost_add")
    return client.post(url, entered(machine, **values), follow=True).content.decode()


def create_host(machine: Machine, **values: Any) -> RemoteHost:
    defaults = {
        "name": "gpu-box",
        "address": "127.0.0.2",
        "port": 9,
        "user": "ubuntu",
        "host_public_key": HOST.public_key,
        "login_key": encrypt_key(LOGIN.private_key.encode()),
        "login_public_key": LOGIN.public_key,
    }
    return RemoteHost.objects.create(machine=machine, **{**defaults, **values})


def test_r8_entered_key_is_encrypted_and_never_shown_again(
    admin_client: Client, machine: Machine
) -> None:
    page = add(admin_client, machine)
    assert "was added successfully" in page

    host = RemoteHost.objects.get()
    change_url = reverse("admin:benchmarking_remotehost_change", args=[host.pk])
    form = admin_client.get(change_url).content.decode()
    history = LogEntry.objects.get().change_message

    # OpenSSH's format holds a random number, so that the same key reads differently each time.
    stored = decrypt_key(host.login_key).decode()
    assert read_private_key(stored).public_key == LOGIN.public_key
    assert host.host_public_key == HOST.public_key
    assert LOGIN.public_key in form
    assert fingerprint(LOGIN.public_key) in form
    assert fingerprint(HOST.public_key) in form
    for text in (page, form, history, bytes(host.login_key).decode()):
        assert "PRIVATE KEY" not in text
        assert not any(line in text for line in stored.splitlines())


def test_r8_refused_form_does_not_send_the_key_back(admin_client: Client, machine: Machine) -> None:
    page = add(admin_client, machine, port=0)

    assert "Ensure this value is greater than or equal to 1." in page
    assert "PRIVATE KEY" not in page
    assert LOGIN.private_key.splitlines()[1] not in page
    assert not RemoteHost.objects.exists()


def test_host_keeps_its_key_where_none_is_entered(admin_client: Client, machine: Machine) -> None:
    host = create_host(machine)
    url = reverse("admin:benchmarking_remotehost_change", args=[host.pk])

    admin_client.post(url, entered(machine, private_key="", address="10.0.0.7"))

    changed = RemoteHost.objects.get()
    assert changed.address == "10.0.0.7"
    assert decrypt_key(changed.login_key).decode() == LOGIN.private_key


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"private_key": ""}, "This field is required."),
        ({"private_key": "hello"}, "This is no private key: paste the whole file"),
        ({"private_key": LOGIN.public_key}, "This is no private key: paste the whole file"),
        ({"host_public_key": "AAAA"}, "Give one public key on one line: one of ssh-ed25519"),
        ({"host_public_key": LOGIN.private_key}, "This is a private key; give the public one."),
        ({"address": "ubuntu@gpu.example"}, "Give a host name or an IP address, without user"),
        ({"address": "gpu.example:22"}, "Give a host name or an IP address, without user"),
        ({"address": "-oProxyCommand=x"}, "Give a host name or an IP address, without user"),
        ({"port": 65536}, "Ensure this value is less than or equal to 65535."),
        ({"user": "-l"}, "Give the name of a user on that computer."),
        ({"python": "bin/python"}, "Give the name of a program, such as python3, or an absolute"),
        ({"python": "python3; reboot"}, "Give the name of a program, such as python3, or an"),
        ({"name": "gpu box"}, "Enter a valid “slug”"),
    ],
)
def test_what_cannot_be_right_is_refused_in_a_sentence(
    admin_client: Client, machine: Machine, values: dict[str, Any], message: str
) -> None:
    page = add(admin_client, machine, **values)

    assert message in page
    assert "PRIVATE KEY" not in page
    assert not RemoteHost.objects.exists()


def act(client: Client, action: str, *hosts: RemoteHost) -> str:
    """The page after the action."""
    data = {"action": action, "_selected_action": [host.pk for host in hosts]}
    return client.post(reverse(LIST), data, follow=True).content.decode()


@pytest.mark.sshd
def test_connection_is_tested_in_words(
    admin_client: Client, machine: Machine, tmp_path: Path
) -> None:
    with FakeMachine(tmp_path / "machine") as computer:
        values = computer.target_values()
        values["login_key"] = encrypt_key(values.pop("login_private_key").encode())
        good = create_host(machine, name="good", **values)
        stranger = create_host(
            machine, name="stranger", **{**values, "host_public_key": HOST.public_key}
        )
        off = create_host(machine, name="off", address="127.0.0.3")

        page = act(admin_client, "test_connection", good, stranger, off)

    assert f"Host good: logged in as {computer.user}@127.0.0.2:{computer.port}; python3 is" in page
    assert f"only {fingerprint(HOST.public_key)} is accepted, and nothing was sent there" in page
    assert "Host off: ubuntu@127.0.0.3:9 does not answer: " in page


def test_key_that_cannot_be_decrypted_is_told_in_words(
    admin_client: Client, machine: Machine
) -> None:
    with override_settings(JOB_SECRET_KEYS=[Fernet.generate_key().decode()]):
        host = create_host(machine)
    with override_settings(JOB_SECRET_KEYS=[Fernet.generate_key().decode()]):
        pages = [
            act(admin_client, name, host) for name in ("test_connection", "encrypt_keys_again")
        ]

    assert "the login key of gpu-box: none of the keys in JOB_SECRET_KEYS decrypts" in pages[0]
    assert "Host gpu-box: none of the keys in JOB_SECRET_KEYS decrypts this secret" in pages[1]


def test_r8_keys_of_hosts_move_to_the_newest_key(admin_client: Client, machine: Machine) -> None:
    old, new = (Fernet.generate_key().decode() for _ in range(2))
    with override_settings(JOB_SECRET_KEYS=[old]):
        host = create_host(machine)

    with override_settings(JOB_SECRET_KEYS=[new, old]):
        page = act(admin_client, "encrypt_keys_again", host)
    assert "Host gpu-box: the login key is encrypted again." in page

    host.refresh_from_db()
    with override_settings(JOB_SECRET_KEYS=[new]):
        assert decrypt_key(host.login_key).decode() == LOGIN.private_key
