"""Read settings from the environment, and refuse what is wrong in one clear line.

django-environ alone reads ``DEBUG=ture`` as false and a mistyped scheme as a traceback, so every
reader here checks what it got and raises ``ImproperlyConfigured``.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

TRUE_WORDS = ("1", "true", "yes", "on")
FALSE_WORDS = ("0", "false", "no", "off")
DATABASE_SCHEMES = ("sqlite", "postgres", "postgresql")
BROKER_SCHEMES = ("filesystem", "redis", "rediss", "memory")
HOST_PATTERN = re.compile(r"^(\*|\.?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*|\[[0-9A-Fa-f:.]+\])$")


class Environment:
    """Typed, checked access to environment variables.

    Parameters
    ----------
    variables : mapping, default=os.environ
        Where the values come from.
    """

    def __init__(self, variables: Mapping[str, str] = os.environ) -> None:
        self._variables = variables

    def text(self, name: str, default: str) -> str:
        """The value of ``name``; an empty value counts as not set."""
        return self._variables.get(name, "").strip() or default

    def boolean(self, name: str, *, default: bool) -> bool:
        """A yes or no, in any of the usual words."""
        value = self.text(name, "").lower()
        if not value:
            return default
        if value in TRUE_WORDS:
            return True
        if value in FALSE_WORDS:
            return False
        allowed = ", ".join(TRUE_WORDS + FALSE_WORDS)
        raise ImproperlyConfigured(f"{name} must be one of {allowed}; it is {value!r}")

    def integer(self, name: str, *, default: int, minimum: int, maximum: int) -> int:
        """A whole number from ``minimum`` to ``maximum``."""
        value = self.text(name, str(default))
        if not re.fullmatch(r"-?[0-9]{1,18}", value) or not minimum <= int(value) <= maximum:
            raise ImproperlyConfigured(
                f"{name} must be a whole number from {minimum} to {maximum}; it is {value!r}"
            )
        return int(value)

    def usd(self, name: str, *, default: str, maximum: int = 1_000_000) -> Decimal:
        """An amount of US dollars from 0 to ``maximum``, with at most two decimal places."""
        value = self.text(name, default)
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,2})?", value) or Decimal(value) > maximum:
            raise ImproperlyConfigured(
                f"{name} must be US dollars from 0 to {maximum}, such as 25 or 7.50; it is "
                f"{value!r}"
            )
        return Decimal(value)

    def words(self, name: str) -> list[str]:
        """Names such as slugs, separated by commas; each counts once."""
        words = [word.strip() for word in self.text(name, "").split(",")]
        words = list(dict.fromkeys(word for word in words if word))
        for word in words:
            if not re.fullmatch(r"[A-Za-z0-9._-]+", word):
                raise ImproperlyConfigured(
                    f"{name} must be names separated by commas; {word!r} is none"
                )
        return words

    def choice(self, name: str, *, default: str, allowed: Sequence[str]) -> str:
        """One of the words in ``allowed``."""
        value = self.text(name, default)
        if value not in allowed:
            raise ImproperlyConfigured(
                f"{name} must be one of {', '.join(allowed)}; it is {value!r}"
            )
        return value

    def folder(self, name: str, *, default: Path) -> Path:
        """An absolute folder to write to, which is made where it does not exist yet."""
        path = Path(self.text(name, str(default))).expanduser()
        if not path.is_absolute():
            raise ImproperlyConfigured(f"{name} must be an absolute path; it is {str(path)!r}")
        if path.exists() and not path.is_dir():
            raise ImproperlyConfigured(f"{name} must be a folder; {str(path)!r} is a file")
        return self.made_folder(name, path)

    def made_folder(self, name: str, path: Path) -> Path:
        """The folder ``path``, of which ``name`` is the cause."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ImproperlyConfigured(
                f"{name}: cannot make the folder {str(path)!r}: {error.strerror}"
            ) from None
        return path

    def program(self, name: str) -> str:
        """A program on this computer, as its absolute path; empty where none is named.

        It is named by its path, or by what the shell would find it under.
        """
        value = self.text(name, "")
        if not value:
            return ""
        hint = f"{name} must be a program of this computer such as /opt/pytorch/bin/python"
        path = Path(value).expanduser()
        if "/" in value and not path.is_absolute():
            # A run starts in a folder of its own, where a relative path names something else.
            raise ImproperlyConfigured(f"{hint}; {value!r} is not absolute")
        found = shutil.which(path)
        if found is None:
            problem = "is not executable" if path.exists() else "does not exist"
            raise ImproperlyConfigured(
                f"{hint}; {value!r} {'is a folder' if path.is_dir() else problem}"
            )
        return str(Path(found).absolute())

    def kept_text(self, name: str, path: Path) -> str:
        """What the installation keeps in ``path``, where ``name`` lies; empty where it does not."""
        return _text_of(name, path) if path.exists() else ""

    def hosts(self, name: str, *, default: Sequence[str]) -> list[str]:
        """Host names, separated by commas."""
        hosts = [host.strip() for host in self.text(name, ",".join(default)).split(",")]
        for host in hosts:
            if not HOST_PATTERN.match(host):
                raise ImproperlyConfigured(
                    f"{name} must be host names separated by commas, without scheme or port; "
                    f"{host!r} is none"
                )
        return hosts

    def origins(self, name: str) -> list[str]:
        """Origins such as ``https://epochcast.example``, separated by commas."""
        value = self.text(name, "")
        origins = [origin.strip() for origin in value.split(",")] if value else []
        for origin in origins:
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or not parts.netloc or parts.path:
                raise ImproperlyConfigured(
                    f"{name} must be origins such as https://epochcast.example, separated by "
                    f"commas; {origin!r} is none"
                )
        return origins

    def secret(self, name: str) -> str | None:
        """The secret in ``name``, or in the file that ``<name>_FILE`` points to.

        Errors name the variable and the file, and never show the secret.
        """
        value = self.text(name, "")
        file_name = self.text(f"{name}_FILE", "")
        if value and file_name:
            raise ImproperlyConfigured(f"{name} and {name}_FILE are both set: set one of them")
        if not file_name:
            return value or None
        content = _text_of(f"{name}_FILE", Path(file_name))
        if not content:
            raise ImproperlyConfigured(f"{name}_FILE: {file_name!r} is empty")
        return content

    def encryption_keys(self, name: str) -> list[str]:
        """Fernet keys, separated by commas or line ends."""
        keys = (self.secret(name) or "").replace(",", " ").split()
        for number, key in enumerate(keys, start=1):
            if not re.fullmatch(r"[A-Za-z0-9_-]{43}=", key):
                raise ImproperlyConfigured(
                    f"{name} must be keys of 32 bytes in URL-safe base64, separated by commas; "
                    f"key {number} is none"
                )
        return keys

    def database(self, name: str, *, default: str) -> dict[str, Any]:
        """A Django database from a URL: ``sqlite:////file`` or ``postgres://user@host/database``."""
        url = self.secret(name) or default
        scheme = url.partition("://")[0]
        hint = "sqlite:////absolute/file or postgres://user:password@host:5432/database"
        if scheme not in DATABASE_SCHEMES or "://" not in url:
            # A password may be in the URL, so only its scheme is repeated.
            raise ImproperlyConfigured(
                f"{name} must look like {hint}; its scheme is {scheme[:20]!r}"
            )
        if scheme == "sqlite" and not re.match(r"sqlite://($|/|:memory:)", url):
            # Two slashes name a host, and what is left would be a database in memory.
            raise ImproperlyConfigured(f"{name} must look like {hint}; its file is not absolute")
        try:
            config: dict[str, Any] = dict(environ.Env.db_url_config(url))
            port = urlsplit(url).port if scheme != "sqlite" else None
        except ValueError:
            raise ImproperlyConfigured(f"{name} must look like {hint}; its port is wrong") from None
        if not config.get("NAME"):
            raise ImproperlyConfigured(f"{name} must look like {hint}; it names no database")
        if scheme == "sqlite":
            _check_sqlite_file(name, Path(config["NAME"]), hint)
        if scheme != "sqlite" and port == 0:
            raise ImproperlyConfigured(f"{name} must look like {hint}; its port is wrong")
        return config

    def broker(self, name: str, *, default: str) -> str:
        """A Celery broker: ``filesystem://`` or ``redis://host:6379/0``."""
        url = self.secret(name) or default
        hint = "filesystem:// or redis://host:6379/0"
        scheme, separator, rest = url.partition("://")
        if scheme not in BROKER_SCHEMES or not separator:
            raise ImproperlyConfigured(f"{name} must be {hint}; its scheme is {scheme[:20]!r}")
        if scheme in ("filesystem", "memory"):
            if rest:
                raise ImproperlyConfigured(
                    f"{name} must be {hint}; {scheme}:// takes nothing behind it "
                    "(its folder is EPOCHCAST_VAR_DIR/celery)"
                )
            return url
        try:
            parts = urlsplit(url)
            port_is_right = parts.port != 0
        except ValueError:
            port_is_right = False
        if not port_is_right:
            raise ImproperlyConfigured(f"{name} must be {hint}; its port is wrong")
        if not parts.hostname:
            raise ImproperlyConfigured(f"{name} must be {hint}; it names no host")
        if not re.fullmatch(r"/?[0-9]*", parts.path):
            raise ImproperlyConfigured(f"{name} must be {hint}; its database is not a number")
        return url


def _text_of(name: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ImproperlyConfigured(f"{name}: cannot read {str(path)!r}: {reason}") from None


def _check_sqlite_file(name: str, path: Path, hint: str) -> None:
    if str(path) == ":memory:":
        return
    if not path.is_absolute():
        # Commands and server would each open a file of their own, depending on where they start.
        raise ImproperlyConfigured(f"{name} must look like {hint}; its file is not absolute")
    if not path.parent.is_dir():
        raise ImproperlyConfigured(f"{name}: there is no folder {str(path.parent)!r}")
