"""Help for a mistyped name or number."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SHOWN_CHARACTERS = 40


def closest_names(text: str, known: Iterable[str], most: int = 2) -> list[str]:
    """The known names most like ``text``, best first, whatever their case; often none."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(text.lower(), by_lower, n=most, cutoff=0.6)
    return [by_lower[name] for name in close]


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """``" (did you mean a or b?)"`` for the known names closest to ``text``, or nothing."""
    close = closest_names(text, known)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def quoted(text: str) -> str:
    """What somebody typed as a message shows it: cut where it is long, and printable."""
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."
    return f"'{''.join(c if c.isprintable() else '?' for c in shown)}'"
