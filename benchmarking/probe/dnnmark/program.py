"""The program for the measured machine as one file, put together from the modules it is made of."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path

_PACKAGE_ROOT = Path(__file__).parents[3]
_MAIN = """import sys

from benchmarking.probe.dnnmark.main import main

sys.exit(main())
"""
_MODULES = (
    "benchmarking/__init__.py",
    "benchmarking/probe/__init__.py",
    "benchmarking/probe/probe.py",
    "benchmarking/probe/dnnmark/__init__.py",
    "benchmarking/probe/dnnmark/config.py",
    "benchmarking/probe/dnnmark/environment.py",
    "benchmarking/probe/dnnmark/execution.py",
    "benchmarking/probe/dnnmark/log.py",
    "benchmarking/probe/dnnmark/main.py",
    "benchmarking/probe/dnnmark/runner.py",
    "benchmarking/probe/dnnmark/tree.py",
)
# The same modules make the same bytes, wherever and whenever: the file's hash tells the version.
_UNDATED = (1980, 1, 1, 0, 0, 0)


@cache
def dnnmark_program() -> bytes:
    """A file that ``python`` runs under any name; it needs nothing beside it."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name in _MODULES:
            file.writestr(_entry(name), (_PACKAGE_ROOT / name).read_text(encoding="utf-8"))
        file.writestr(_entry("__main__.py"), _MAIN)
    return archive.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _UNDATED)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
