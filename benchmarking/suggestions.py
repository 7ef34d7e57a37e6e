"""Help for a mistyped name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """``" (did you mean a or b?)"`` for the known names closest to ``text``, or nothing."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(text.lower(), by_lower, n=2, cutoff=0.6)
    if not close:
        return ""
    return f" (did you mean {' or '.join(by_lower[name] for name in close)}?)"
