"""Help for a mistyped name or number."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SHOWN_CHARACTERS = 40
_SHORTEST_PART = 2


def closest_names(text: str, known: Iterable[str], most: int = 2) -> list[str]:
    """The known names most like ``text``, best first, whatever their case; often none.

    Names that ``text`` begins or stands in, such as ``v100`` in ``v100-sxm2-16gb``, follow those
    that are spelt like it.
    """
    by_lower = {name.lower(): name for name in known}
    typed = text.lower()
    close = difflib.get_close_matches(typed, by_lower, n=most, cutoff=0.6)
    if len(typed) >= _SHORTEST_PART:
        containing = sorted(
            (name for name in by_lower if typed in name and name not in close),
            key=lambda name: (not name.startswith(typed), len(name), name),
        )
        close += containing[: most - len(close)]
    return [by_lower[name] for name in close]


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """``" (did you mean a or b?)"`` for the known names closest to ``text``, or nothing."""
    close = closest_names(text, known)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def did_you_mean_sentence(text: str, known: Iterable[str]) -> str:
    """``" Did you mean a or b?"``, which follows a sentence, or nothing."""
    close = closest_names(text, known, most=3)
    return f" Did you mean {' or '.join(close)}?" if close else ""


def quoted(text: str) -> str:
    """What somebody typed as a message shows it: cut where it is long, and printable."""
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."
    return f"'{''.join(c if c.isprintable() else '?' for c in shown)}'"
