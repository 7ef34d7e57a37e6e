"""Serve plotly.js from the installed plotly package, as ``plotly/plotly.min.js``."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, overload

from django.contrib.staticfiles.finders import BaseFinder
from django.core.checks import CheckMessage
from django.core.checks import Error as CheckError
from django.core.files.storage import FileSystemStorage, Storage


class PlotlyFinder(BaseFinder):
    """Finds plotly.js alone: the package's data sets and templates are no business of browsers."""

    name = "plotly.min.js"
    prefix = "plotly"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Importing plotly takes a noticeable part of a second; looking it up does not.
        spec = find_spec("plotly")
        folder = Path(spec.origin).parent if spec and spec.origin else Path()
        self.storage = FileSystemStorage(location=folder / "package_data")
        self.storage.prefix = self.prefix  # type: ignore[attr-defined]

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Report a plotly package that has no plotly.js."""
        if self.storage.exists(self.name):
            return []
        return [
            CheckError(
                f"{self.storage.path(self.name)} does not exist",
                hint="Install the version of plotly that requirements.txt names.",
                id="predictor_site.E001",
            )
        ]

    @overload
    def find(self, path: str, find_all: Literal[False] = ...) -> str | None: ...

    @overload
    def find(self, path: str, find_all: Literal[True]) -> builtins.list[str]: ...

    def find(self, path: str, find_all: bool = False) -> str | builtins.list[str] | None:
        """The absolute path of ``plotly/plotly.min.js``; nothing for any other ``path``."""
        if path != f"{self.prefix}/{self.name}":
            # Not None, whatever the stubs say: Django would count that as one file found.
            return []
        found = self.storage.path(self.name)
        return [found] if find_all else found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, Storage]]:
        """The one file, for collectstatic."""
        yield self.name, self.storage
