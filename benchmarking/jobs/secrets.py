"""The keys that open benchmark hosts: made for one job, encrypted at rest, erased at its end.

The encryption has a key list of its own, ``JOB_SECRET_KEYS``: the first key encrypts, each of
them decrypts, so a new first key can be added before the old one is dropped. Nothing here is
needed to serve pages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from benchmarking.hosts.keys import make_key_pair
from benchmarking.kept_values import kept_value
from benchmarking.models import BenchmarkJob, JobSecret

KEY_FILE = "job_secret_key"


class SecretErasedError(Exception):
    """The job's keys are erased, or it never had any."""


class SecretUnreadableError(Exception):
    """None of this installation's keys decrypts the secret."""


@dataclass(frozen=True, slots=True)
class JobKeys:
    """The decrypted keys of one job: private ones as PEM, public ones as ``authorized_keys``."""

    login_private_key: str = field(repr=False)
    login_public_key: str
    host_private_key: str = field(repr=False)
    host_public_key: str


def create_job_secret(job: BenchmarkJob) -> JobSecret:
    """Make the job's login key and its host's key, or return those it has, erased ones too."""
    existing = JobSecret.objects.filter(job=job).first()
    if existing is not None:
        return existing
    login, host = make_key_pair(), make_key_pair()
    # Of two workers that come here at once, the database lets one pair through for both.
    secret, _ = JobSecret.objects.get_or_create(
        job=job,
        defaults={
            "login_key": encrypt_key(login.private_key.encode()),
            "host_key": encrypt_key(host.private_key.encode()),
            "login_public_key": login.public_key,
            "host_public_key": host.public_key,
        },
    )
    return secret


def read_job_secret(job: BenchmarkJob) -> JobKeys:
    """The job's keys, decrypted.

    Raises
    ------
    SecretErasedError
        If they are erased, or were never made.
    SecretUnreadableError
        If they were encrypted with a key that this process does not have.
    """
    secret = JobSecret.objects.filter(job=job).first()
    if secret is None or secret.erased_at is not None:
        raise SecretErasedError(f"the keys of job {job.pk} are erased")
    return JobKeys(
        login_private_key=decrypt_key(secret.login_key).decode(),
        login_public_key=secret.login_public_key,
        host_private_key=decrypt_key(secret.host_key).decode(),
        host_public_key=secret.host_public_key,
    )


def erase_job_secret(job: BenchmarkJob) -> None:
    """Forget the job's private keys for good; the public ones stay, to tell what was used."""
    _erase(JobSecret.objects.filter(job=job))


def erase_leftover_secrets() -> int:
    """Erase the keys of jobs that have ended and still hold some; return how many."""
    return _erase(JobSecret.objects.filter(job__state__in=BenchmarkJob.FINAL_STATES))


def _erase(secrets: QuerySet[JobSecret]) -> int:
    return secrets.filter(erased_at__isnull=True).update(
        login_key=b"", host_key=b"", erased_at=timezone.now()
    )


def encrypt_key(data: bytes) -> bytes:
    """``data`` under the first key of the list."""
    return _cipher().encrypt(data)


def decrypt_key(data: bytes | memoryview) -> bytes:
    """What ``encrypt_key`` was given; raises ``SecretUnreadableError`` where no key fits."""
    try:
        return _cipher().decrypt(bytes(data))
    except InvalidToken:
        raise _unreadable() from None


def encrypt_again(data: bytes | memoryview) -> bytes:
    """The same secret under the first key of the list, so that an older key can be dropped."""
    try:
        return _cipher().rotate(bytes(data))
    except InvalidToken:
        raise _unreadable() from None


def _unreadable() -> SecretUnreadableError:
    return SecretUnreadableError(
        "none of the keys in JOB_SECRET_KEYS decrypts this secret; give every worker the list "
        "that the secret was made with"
    )


def _cipher() -> MultiFernet:
    keys = settings.JOB_SECRET_KEYS or [
        kept_value(Path(settings.VAR_DIR) / KEY_FILE, lambda: Fernet.generate_key().decode())
    ]
    return MultiFernet([Fernet(key) for key in keys])
