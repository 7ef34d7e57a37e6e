"""SSH keys as text: made, read, checked, and shown by their fingerprint."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
    load_ssh_public_key,
)

PrivateKey = Ed25519PrivateKey | EllipticCurvePrivateKey | RSAPrivateKey

PUBLIC_KEY_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
)
MINIMUM_RSA_BITS = 2048


class WrongKeyError(ValueError):
    """A text that is not the key that is asked for; the message never repeats the text."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A private key in OpenSSH's PEM format, and its public half as in ``authorized_keys``."""

    private_key: str
    public_key: str

    def __repr__(self) -> str:
        """Without the private half: a traceback or a log must not show it."""
        return f"KeyPair({self.public_key!r})"


def make_key_pair() -> KeyPair:
    """A fresh ed25519 key."""
    return _pair(Ed25519PrivateKey.generate())


def read_private_key(text: str) -> KeyPair:
    """The key in ``text``, of any format that ``ssh-keygen`` or ``openssl`` write.

    Raises ``WrongKeyError`` if it is none, is protected by a passphrase, or is of a kind or a
    size that is not accepted.
    """
    data = text.strip().encode() + b"\n"
    load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in data else load_pem_private_key
    try:
        key = load(data, password=None)
    except TypeError:
        raise WrongKeyError(
            "the private key is protected by a passphrase; give one without"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise WrongKeyError(
            "this is no private key: paste the whole file, from the line BEGIN to the line END"
        ) from None
    if not isinstance(key, PrivateKey):
        raise WrongKeyError("the private key must be an ed25519, ECDSA or RSA key")
    if isinstance(key, RSAPrivateKey) and key.key_size < MINIMUM_RSA_BITS:
        raise WrongKeyError(f"the RSA key must have at least {MINIMUM_RSA_BITS} bits")
    return _pair(key)


def read_public_key(text: str) -> str:
    """The public key in a line of ``ssh-keyscan``, ``known_hosts`` or a ``.pub`` file.

    Host names before the key and a comment behind it are dropped. Raises ``WrongKeyError`` if
    there is none, or more than one.
    """
    if "PRIVATE KEY" in text:
        raise WrongKeyError("this is a private key; give the public one")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    words = lines[0].split() if len(lines) == 1 else []
    kind = next((word for word in words if word in PUBLIC_KEY_TYPES), None)
    if kind is None:
        raise WrongKeyError(
            f"give one public key on one line: one of {', '.join(PUBLIC_KEY_TYPES)}, a space, "
            "and the key itself"
        )
    key = " ".join(words[words.index(kind) :][:2])
    try:
        load_ssh_public_key(key.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise WrongKeyError(f"the {kind} key is cut off or mistyped") from None
    return key


def fingerprint(public_key: str) -> str:
    """What ``ssh-keygen -l`` shows of a public key: ``SHA256:`` and the digest."""
    digest = hashlib.sha256(base64.b64decode(public_key.split()[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def _pair(key: PrivateKey) -> KeyPair:
    private_key = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public_key = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return KeyPair(private_key.decode(), public_key.decode())
