"""Keys of jobs: fresh for each, encrypted at rest, erased at the end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from django.test import override_settings

from benchmarking.hosts.keys import read_private_key
from benchmarking.jobs import secrets
from benchmarking.jobs.secrets import (
    SecretErasedError,
    SecretUnreadableError,
    create_job_secret,
    decrypt_key,
    encrypt_again,
    encrypt_key,
    erase_job_secret,
    erase_leftover_secrets,
    read_job_secret,
)
from benchmarking.models import JobSecret
from benchmarking.tests import factories

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))


@pytest.mark.django_db
def test_r8_every_job_gets_fresh_keys_and_reads_them_back() -> None:
    machine = factories.create_cpu_machine()
    first, second = (factories.create_job(machine=machine) for _ in range(2))
    create_job_secret(first)
    create_job_secret(second)

    keys, others = read_job_secret(first), read_job_secret(second)

    assert read_private_key(keys.login_private_key).public_key == keys.login_public_key
    assert read_private_key(keys.host_private_key).public_key == keys.host_public_key
    assert keys.login_public_key.startswith("ssh-ed25519 ")
    assert len({keys.login_public_key, keys.host_public_key}) == 2
    assert keys.login_public_key != others.login_public_key


@pytest.mark.django_db
def test_r8_making_the_keys_twice_keeps_the_first_ones() -> None:
    job = factories.create_job()
    create_job_secret(job)
    keys = read_job_secret(job)

    create_job_secret(job)

    assert read_job_secret(job) == keys
    assert JobSecret.objects.count() == 1


@pytest.mark.django_db
def test_r8_keys_are_encrypted_at_rest() -> None:
    secret = create_job_secret(factories.create_job())
    secret.refresh_from_db()

    for stored in (bytes(secret.login_key), bytes(secret.host_key)):
        assert b"PRIVATE KEY" not in stored
        assert b"BEGIN OPENSSH PRIVATE KEY" in decrypt_key(stored)


@pytest.mark.django_db
def test_r8_erased_keys_are_gone_and_are_not_made_again() -> None:
    job = factories.create_job()
    create_job_secret(job)

    erase_job_secret(job)
    erased = create_job_secret(job)

    assert (bytes(erased.login_key), bytes(erased.host_key)) == (b"", b"")
    assert erased.erased_at is not None
    assert erased.login_public_key.startswith("ssh-ed25519 ")
    with pytest.raises(SecretErasedError, match=f"the keys of job {job.pk} are erased"):
        read_job_secret(job)


@pytest.mark.django_db
def test_r8_job_without_keys_has_none_to_read_or_erase() -> None:
    job = factories.create_job()

    erase_job_secret(job)
    with pytest.raises(SecretErasedError):
        read_job_secret(job)


@pytest.mark.django_db
def test_r8_keys_of_ended_jobs_are_swept() -> None:
    machine = factories.create_cpu_machine()
    ended, running = (
        factories.create_job(machine=machine, state=state) for state in ("failed", "running")
    )
    create_job_secret(ended)
    create_job_secret(running)

    assert erase_leftover_secrets() == 1
    assert erase_leftover_secrets() == 0

    read_job_secret(running)
    with pytest.raises(SecretErasedError):
        read_job_secret(ended)


def test_r8_first_key_of_the_list_encrypts_and_each_decrypts() -> None:
    with override_settings(JOB_SECRET_KEYS=[OLD]):
        stored = encrypt_key(b"secret")
    with override_settings(JOB_SECRET_KEYS=[NEW, OLD]):
        assert decrypt_key(stored) == b"secret"
        newer = encrypt_again(stored)
    with override_settings(JOB_SECRET_KEYS=[NEW]):
        assert decrypt_key(newer) == b"secret"
        with pytest.raises(SecretUnreadableError, match="none of the keys in JOB_SECRET_KEYS"):
            decrypt_key(stored)


def test_r8_installation_makes_its_own_key_at_the_first_use(tmp_path: Path) -> None:
    with override_settings(JOB_SECRET_KEYS=[], VAR_DIR=tmp_path):
        stored = encrypt_key(b"secret")
        path = tmp_path / "job_secret_key"

        assert path.stat().st_mode & 0o777 == 0o600
        assert Fernet(path.read_text()).decrypt(stored) == b"secret"
        assert decrypt_key(stored) == b"secret"
        assert [entry.name for entry in tmp_path.iterdir()] == ["job_secret_key"]


def test_r8_processes_that_start_at_once_agree_on_one_key(tmp_path: Path) -> None:
    with override_settings(JOB_SECRET_KEYS=[], VAR_DIR=tmp_path):
        with ThreadPoolExecutor(8) as threads:
            stored = list(threads.map(encrypt_key, [b"secret"] * 8))

        assert {decrypt_key(each) for each in stored} == {b"secret"}


def test_r8_shown_keys_hide_their_private_halves() -> None:
    keys = secrets.JobKeys("PRIVATE one", "ssh-ed25519 A", "PRIVATE two", "ssh-ed25519 B")

    assert (
        repr(keys) == "JobKeys(login_public_key='ssh-ed25519 A', host_public_key='ssh-ed25519 B')"
    )
