"""The secret in a private link: how it is made, and how it is kept out of logs.

Whoever knows the token sees the network. It is also the end of the network's name in a query, so
that any forecast of it is a URL like every other.
"""

from __future__ import annotations

import re
import secrets

OWN_PREFIX = "own-"

# 128 random bits; with the prefix, a name that every column for names can hold.
_TOKEN_BYTES = 16
_TOKEN = re.compile(r"[A-Za-z0-9_-]{22}")
_TOKEN_IN_TEXT = re.compile(r"(\bown-|/own/|/uploads/)[A-Za-z0-9_-]{22}")


def new_token() -> str:
    """A secret of 22 characters that a URL can hold."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def slug_of(token: str) -> str | None:
    """The name of the network behind ``token``; ``None`` if this cannot be a token."""
    return f"{OWN_PREFIX}{token}" if _TOKEN.fullmatch(token) else None


def hide_tokens(text: str) -> str:
    """``text`` with every token replaced by three dots."""
    return _TOKEN_IN_TEXT.sub(r"\1...", text)
