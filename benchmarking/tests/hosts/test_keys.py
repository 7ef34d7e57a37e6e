"""SSH keys as people paste them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from benchmarking.hosts.keys import (
    WrongKeyError,
    fingerprint,
    make_key_pair,
    read_private_key,
    read_public_key,
)

PAIR = make_key_pair()


def keygen(folder: Path, *arguments: str) -> Path:
    path = folder / "key"
    command = ["ssh-keygen", "-q", "-f", str(path), "-C", "someone@somewhere", *arguments]
    subprocess.run(command, check=True, timeout=60)
    return path


@pytest.mark.sshd
@pytest.mark.parametrize(
    "arguments",
    [
        ("-t", "ed25519"),
        ("-t", "ecdsa"),
        ("-t", "rsa", "-b", "2048"),
        ("-t", "rsa", "-b", "2048", "-m", "PEM"),
        ("-t", "ecdsa", "-m", "PKCS8"),
    ],
    ids=" ".join,
)
def test_keys_of_ssh_keygen_are_read(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    path = keygen(tmp_path, "-N", "", *arguments)
    public_text = path.with_suffix(".pub").read_text()

    pair = read_private_key(f"\n{path.read_text()}\n")

    assert pair.public_key == read_public_key(public_text)
    assert pair.private_key.startswith("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    shown = subprocess.run(["ssh-keygen", "-lf", path], capture_output=True, text=True, check=True)
    assert fingerprint(pair.public_key) == shown.stdout.split()[1]


@pytest.mark.sshd
@pytest.mark.parametrize("form", ["RFC4716", "PEM", "PKCS8"])
def test_key_behind_a_passphrase_is_refused(tmp_path: Path, form: str) -> None:
    path = keygen(tmp_path, "-N", "a passphrase", "-t", "ecdsa", "-m", form)

    with pytest.raises(WrongKeyError, match=r"protected by a passphrase; give one without"):
        read_private_key(path.read_text())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        PAIR.public_key,
        PAIR.private_key[:-60],
        PAIR.private_key.replace("A", "B"),
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "\x00\ud7ff",
    ],
)
def test_what_is_no_private_key_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(WrongKeyError, match="this is no private key: paste the whole file") as info:
        read_private_key(text)

    assert info.value.__cause__ is None
    assert not text.strip() or text.strip() not in str(info.value)


@pytest.mark.parametrize(
    "line",
    [
        PAIR.public_key,
        f"  {PAIR.public_key} someone@somewhere \n",
        f"gpu.example {PAIR.public_key}",
        f"# gpu.example:22 SSH-2.0-OpenSSH_9.2\n[10.0.0.1]:2222 {PAIR.public_key}\n",
    ],
)
def test_public_key_is_found_in_its_line(line: str) -> None:
    assert read_public_key(line) == PAIR.public_key


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "give one public key on one line"),
        ("ssh-dss AAAAB3NzaC1kc3MAAACBAP", "give one public key on one line"),
        (f"{PAIR.public_key}\n{PAIR.public_key}", "give one public key on one line"),
        ("ssh-ed25519", "the ssh-ed25519 key is cut off or mistyped"),
        (PAIR.public_key[:-8], "the ssh-ed25519 key is cut off or mistyped"),
        (PAIR.public_key.replace("ssh-ed25519", "ssh-rsa"), "the ssh-rsa key is cut off"),
        (PAIR.private_key, "this is a private key; give the public one"),
    ],
)
def test_what_is_no_public_key_is_refused(text: str, message: str) -> None:
    with pytest.raises(WrongKeyError, match=message) as info:
        read_public_key(text)

    assert PAIR.private_key.splitlines()[1] not in str(info.value)


def test_small_rsa_key_is_refused() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()

    with pytest.raises(WrongKeyError, match="the RSA key must have at least 2048 bits"):
        read_private_key(text)


def test_shown_pair_hides_its_private_half() -> None:
    assert repr(PAIR) == f"KeyPair('{PAIR.public_key}')"
