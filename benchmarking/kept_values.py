"""Values that an installation makes once and keeps in a file of its own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path


def kept_value(path: Path, make: Callable[[], str]) -> str:
    """The text in ``path``, which ``make`` gives where there is none yet.

    The file appears whole, with a text that only its owner can read; of several processes that
    find none, all return the one that was first.
    """
    if not (text := _read(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{uuid.uuid4()}")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(make())
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(partial)
        except FileExistsError:
            pass
        finally:
            partial.unlink()
        text = _read(path)
    return text


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""
