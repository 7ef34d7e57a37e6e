"""Take a file that nobody vouches for, store its network, keep it, let it go.

A file is read in the web process's own request, in a child process with limits on time and
memory (:mod:`benchmarking.onnx_import.untrusted`), and not in Celery: reading takes some three
seconds, the answer belongs beside the form's field, nothing has to be stored before it is known
to be good, and the site must take uploads where no worker runs. One file is read at a time on a
host, so that slow files never hold more than one of the web processes.
"""

from __future__ import annotations

import fcntl
import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import IO

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.db import IntegrityError, transaction

from benchmarking.catalogue.architectures import remove_uploaded_network, store_uploaded_network
from benchmarking.catalogue.errors import CatalogueError
from benchmarking.models import Machine
from benchmarking.onnx_import.errors import LARGEST_FILE_BYTES, MEBIBYTE, UploadError
from benchmarking.onnx_import.untrusted import UploadKind, read_untrusted
from benchmarking.specs import TracedNetwork
from predictions.models import ForecastCurve
from predictions.uploads.models import MeasurementRequest, OwnNetwork
from predictions.uploads.tokens import new_token, slug_of

# A web server gives up on a request after 30 seconds; the sentence must come before that.
READING_SECONDS = 20.0
# Every layer is estimated for every batch size on every machine: more would make pages slow.
LARGEST_DISTINCT_LAYERS = 1_000
LONGEST_IDEMPOTENCY_KEY = 200
EXPIRED_AT_A_TIME = 200

TOO_LARGE = "too_large"
TOO_LARGE_SENTENCE = (
    f"The file is too large: at most {LARGEST_FILE_BYTES // MEBIBYTE} MB are allowed. Weights are "
    "not needed, so save them outside of the .onnx file."
)


class UploadBusyError(Exception):
    """Another file is being read; try again in a few seconds."""


class IdempotencyError(ValueError):
    """An Idempotency-Key that cannot be used: the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends: ``address`` tells equal keys of two people apart; no key means no replay."""

    address: str = ""
    idempotency_key: str = ""

    def idempotency_digest(self) -> str | None:
        """What is stored of a key, and of nobody's address in the clear."""
        key = self.idempotency_key
        if not key:
            return None
        if len(key) > LONGEST_IDEMPOTENCY_KEY or not key.isprintable():
            raise IdempotencyError(
                f"An Idempotency-Key has 1 to {LONGEST_IDEMPOTENCY_KEY} printable characters."
            )
        return hashlib.sha256(f"{self.address}\n{key}".encode()).hexdigest()


def upload_network(
    file: UploadedFile, *, image_size: int | None = None, sender: Sender | None = None
) -> OwnNetwork:
    """Read an uploaded file and store its network behind a new private link.

    Sent again by the same sender with the same key and content, the first answer comes back.

    Raises
    ------
    UploadError
        With one sentence about the file; ``code`` is ``too_large`` for one of too many bytes.
    IdempotencyError
        The key was used with other content, or is no key.
    UploadBusyError
        Another file is being read on this host.
    """
    idempotency_digest = (sender or Sender()).idempotency_digest()
    if (file.size or 0) > LARGEST_FILE_BYTES:
        raise UploadError(TOO_LARGE_SENTENCE, code=TOO_LARGE)
    with tempfile.NamedTemporaryFile(prefix="epochcast-upload-") as copy:
        content_digest = _copy(file, copy, image_size)
        earlier = _earlier_answer(idempotency_digest, content_digest)
        if earlier is not None:
            return earlier
        with _only_reader():
            network = _read(Path(copy.name), image_size)
    label = _label(file.name or "", network)
    try:
        return _store(network, label, content_digest, idempotency_digest)
    except IntegrityError:
        # The same request came twice at the same time, and the other one was quicker.
        earlier = _earlier_answer(idempotency_digest, content_digest)
        if earlier is None:
            raise
        return earlier


def find_network(token: str) -> OwnNetwork | None:
    """The network behind a private link; ``None`` for a link that is wrong or has expired."""
    slug = slug_of(token)
    if slug is None:
        return None
    return (
        OwnNetwork.objects.current()
        .select_related("architecture")
        .defer("architecture__operations")
        .filter(architecture__slug=slug)
        .first()
    )


def keep_network(network: OwnNetwork) -> None:
    """Let a network stay until somebody deletes it."""
    network.expires_at = None
    network.save(update_fields=["expires_at"])


def delete_network(network: OwnNetwork) -> None:
    """Delete a network with its link, its curves and its requests."""
    with transaction.atomic():
        architecture = network.architecture
        ForecastCurve.objects.filter(architecture=architecture).delete()
        network.delete()
        remove_uploaded_network(architecture)


def remove_expired_networks(limit: int = EXPIRED_AT_A_TIME) -> int:
    """Delete networks whose time is over, at most ``limit``; returns how many."""
    expired = list(OwnNetwork.objects.expired().select_related("architecture")[:limit])
    for network in expired:
        delete_network(network)
    return len(expired)


def request_measurement(
    network: OwnNetwork, machine: Machine, missing_layers: int
) -> MeasurementRequest:
    """Note for the operators that somebody wants the missing layers measured; starts nothing."""
    request, _ = MeasurementRequest.objects.get_or_create(
        own_network=network, machine=machine, defaults={"missing_layers": missing_layers}
    )
    return request


def _copy(file: UploadedFile, copy: IO[bytes], image_size: int | None) -> str:
    """Write the content to a file of ours; returns the digest of all that was sent."""
    digest = hashlib.sha256(f"{image_size or ''}\n".encode())
    for chunk in file.chunks():
        digest.update(chunk)
        copy.write(chunk)
    copy.flush()
    return digest.hexdigest()


def _earlier_answer(idempotency_digest: str | None, content_digest: str) -> OwnNetwork | None:
    if idempotency_digest is None:
        return None
    earlier = (
        OwnNetwork.objects.select_related("architecture")
        .filter(idempotency_digest=idempotency_digest)
        .first()
    )
    if earlier is None:
        return None
    if not OwnNetwork.objects.current().filter(pk=earlier.pk).exists():
        delete_network(earlier)
        return None
    if earlier.content_digest != content_digest:
        raise IdempotencyError("This Idempotency-Key was used for another file; take a new one.")
    return earlier


@contextmanager
def _only_reader() -> Iterator[None]:
    path = Path(settings.VAR_DIR) / "upload.lock"
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UploadBusyError from error
        yield


def _read(path: Path, image_size: int | None) -> TracedNetwork:
    network = read_untrusted(path, _kind(path), READING_SECONDS, image_size=image_size)
    if len(network.convolutions) > LARGEST_DISTINCT_LAYERS:
        raise UploadError(
            f"The network has {len(network.convolutions):,} different convolution layers; at most "
            f"{LARGEST_DISTINCT_LAYERS:,} are covered.",
            code="too_large_network",
        )
    return network


def _kind(path: Path) -> UploadKind:
    """Told by the first character, since names lie: no ONNX file starts like a JSON text."""
    with path.open("rb") as file:
        start = file.read(64).lstrip()
    return UploadKind.TRACE if start.startswith((b"{", b"[")) else UploadKind.ONNX


def _label(file_name: str, network: TracedNetwork) -> str:
    name = network.slug if network.slug != "own-network" else PurePath(file_name).stem
    return _printable(name)[:80] or "network"


def _printable(text: str) -> str:
    """Without characters that nobody sees and that a database may refuse."""
    return "".join(character for character in text if character.isprintable()).strip()


def _store(
    network: TracedNetwork, label: str, content_digest: str, idempotency_digest: str | None
) -> OwnNetwork:
    private = replace(
        network, slug=slug_of(new_token()) or "", family="own", note=_printable(network.note)
    )
    with transaction.atomic():
        try:
            architecture = store_uploaded_network(private)
        except CatalogueError as error:
            sentence = str(error).replace(private.slug, "The network")
            raise UploadError(f"{sentence}.", code="bad_network") from error
        return OwnNetwork.objects.create(
            architecture=architecture,
            label=label,
            content_digest=content_digest,
            idempotency_digest=idempotency_digest,
        )
